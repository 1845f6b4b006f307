"""Style and script: a fixed set of files of ours, read once, so that no path of a request ever reaches a disk."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from aiohttp import web

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file, and what a browser needs to know of it."""

    content: bytes
    kind: str
    tag: str


def static_files() -> dict[str, StaticFile]:
    """All of them by their names; the style of reports is one of them, since pages here look like those."""
    found = [*(files("seatrial.view") / "static").iterdir(), files("seatrial.report.html") / "report.css"]
    return {
        path.name: StaticFile(content, _TYPES[ending], hashlib.sha256(content).hexdigest()[:32])
        for path in found
        if (ending := path.name.rpartition(".")[2]) in _TYPES
        for content in (path.read_bytes(),)
    }


def routes() -> list[web.RouteDef]:
    known = static_files()

    async def serve(request: web.Request) -> web.Response:
        file = known.get(request.match_info["name"])
        if file is None:
            raise web.HTTPNotFound
        matches = request.if_none_match or ()
        if any(each.value in (file.tag, "*") for each in matches):
            response = web.Response(status=304)
        else:
            response = web.Response(body=file.content, headers={"Content-Type": file.kind})
        response.etag = file.tag
        response.headers["Cache-Control"] = "no-cache"  # kept, and asked about each time whether it is still the same
        return response

    return [web.get("/static/{name}", serve)]
