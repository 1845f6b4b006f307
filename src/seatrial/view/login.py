"""The page that asks for a password, where the viewer can be reached from other machines."""

import math
from collections.abc import Mapping

from aiohttp import web

from seatrial.view.app import GUARD, VIEW, html
from seatrial.view.guard import LOGIN, is_same
from seatrial.view.guesses import Guesses
from seatrial.view.templating import render


def routes() -> list[web.RouteDef]:
    """Where it is."""
    guesses = Guesses()

    async def ask(request: web.Request) -> web.Response:
        if request.app[VIEW].settings.password is None:
            raise web.HTTPNotFound
        return _page(request, request.query.get("next", "/"))

    async def enter(request: web.Request) -> web.Response:
        password, address = request.app[VIEW].settings.password, request.remote or ""
        if password is None:
            raise web.HTTPNotFound
        form = await _form(request)
        # Not before it is all here: guesses that came together would all be told that they need not wait.
        if wait := guesses.wait(address):
            seconds = math.ceil(wait)
            text = f"Too many wrong passwords. Try again in {seconds} s."
            raise web.HTTPTooManyRequests(text=text, headers={"Retry-After": f"{seconds}"})
        if not is_same(str(form.get("password", "")), password):
            guesses.wrong(address)
            return _page(request, str(form.get("next", "/")), wrong=True)
        guesses.right(address)
        response = web.Response(status=303, headers={"Location": _own_path(str(form.get("next", "/")))})
        request.app[GUARD].admit(request, response)
        return response

    return [web.get(LOGIN, ask), web.post(LOGIN, enter)]


async def _form(request: web.Request) -> Mapping[str, object]:
    try:
        return await request.post()
    except (ValueError, LookupError):  # of a text that is none, or in an encoding that nobody knows
        raise web.HTTPBadRequest(text="What was sent is no form of this page.") from None


def _page(request: web.Request, target: str, *, wrong: bool = False) -> web.Response:
    values = {"title": "Password", "target": _own_path(target), "action": LOGIN, "wrong": wrong}
    return html(render("login.html.jinja", request.app[VIEW].links, **values), 403 if wrong else 200)


def _own_path(target: str) -> str:
    """A path of this viewer: whatever somebody wrote into a link, nobody is sent anywhere else."""
    return "/" + "".join(letter for letter in target if letter.isprintable()).lstrip("/\\ ")
