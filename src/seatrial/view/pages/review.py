"""The page of a review. Its address names neither job nor trial: reviewers are to judge without knowing either."""

import asyncio

from aiohttp import web

from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.review.api import ReviewApi, without_names
from seatrial.view.review.asked import pack_queue, queue_in, unpack_queue
from seatrial.view.templating import render


def review_page(view: Viewer, desk: str, queue: str = "") -> str:
    """The page on which the job of a desk is reviewed; `queue` says which of its trials, packed."""
    unpack_queue(queue)
    api = view.links.review_api(desk)
    access = view.settings.access
    return render("review.html.jinja", view.links, title="Review", api=api, queue=queue, access=access)


def routes() -> list[web.RouteDef]:
    """Where this module's pages are, and what they ask for."""
    api = ReviewApi()

    async def begin(request: web.Request) -> web.Response:
        view = request.app[VIEW]
        key = await asyncio.to_thread(api.desks.key_of, view.library, request.match_info["job"])
        packed = pack_queue(queue_in(request))
        raise web.HTTPSeeOther(view.links.review_desk(key, **({"queue": packed} if packed else {})))

    async def page(request: web.Request) -> web.Response:
        view, key = request.app[VIEW], request.match_info["desk"]
        await without_names(lambda: api.desks.open(view.library, key))
        return html(review_page(view, key, request.query.get("queue", "")))

    return [web.get("/review/{job}/", begin), web.get("/desk/{desk}/", page), *api.routes()]
