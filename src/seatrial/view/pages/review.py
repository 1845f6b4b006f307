"""The page of a review. Its address names neither job nor trial: reviewers are to judge without knowing either."""

import asyncio

from aiohttp import web

from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.review.api import ReviewApi, pack_queue, queue_in, unpack_queue, without_names
from seatrial.view.templating import render


def review_page(view: Viewer, desk: str, queue: str = "") -> str:
    """The page on which the job of a desk is reviewed; `queue` says which of its trials, packed."""
    unpack_queue(queue)
    api = view.links.review_api(desk)
    access, settle = view.settings.access, view.links.settle_desk(desk)
    return render("review.html.jinja", view.links, title="Review", api=api, queue=queue, access=access, settle=settle)


def settle_page(view: Viewer, desk: str) -> str:
    """The page on which somebody decides where reviewers disagree."""
    links, access = view.links, view.settings.access
    api, back = links.review_api(desk), links.review_desk(desk)
    return render("settle.html.jinja", links, title="Disagreements", api=api, desk=back, access=access)


def routes() -> list[web.RouteDef]:
    """Where this module's pages are, and what they ask for."""
    api = ReviewApi()

    async def begin(request: web.Request) -> web.Response:
        view = request.app[VIEW]
        key = await asyncio.to_thread(api.desks.key_of, view.library, request.match_info["job"])
        packed = pack_queue(queue_in(request))
        raise web.HTTPSeeOther(view.links.review_desk(key, **({"queue": packed} if packed else {})))

    async def begin_settling(request: web.Request) -> web.Response:
        view = request.app[VIEW]
        key = await asyncio.to_thread(api.desks.key_of, view.library, request.match_info["job"])
        raise web.HTTPSeeOther(view.links.settle_desk(key))

    async def settling(request: web.Request) -> web.Response:
        view, key = request.app[VIEW], request.match_info["desk"]
        await without_names(lambda: api.desks.open(view.library, key))
        return html(settle_page(view, key))

    async def page(request: web.Request) -> web.Response:
        view, key = request.app[VIEW], request.match_info["desk"]
        await without_names(lambda: api.desks.open(view.library, key))
        return html(review_page(view, key, request.query.get("queue", "")))

    return [
        web.get("/review/{job}/", begin),
        web.get("/settle/{job}/", begin_settling),
        web.get("/desk/{desk}/", page),
        web.get("/desk/{desk}/settle/", settling),
        *api.routes(),
    ]
