"""One file of a trial: the page that shows it by its format, and its bytes."""

import asyncio
import os

from aiohttp import web

from seatrial.errors import SeatrialError
from seatrial.untrusted.files import open_below, read_bounded
from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.content import RawAddress, raw_headers
from seatrial.view.show import show_file
from seatrial.view.templating import render
from seatrial.view.trial_files import place_of

# Pictures in a notebook and values in a tree make sense only as a whole; of anything else, little is read.
_READ_WHOLE, _READ_MOST = (".ipynb", ".json", ".svg"), 2**22
_READ_LITTLE = 2**18
_CHUNK = 2**18
_LOOKED_AT = 2**13


def file_page(view: Viewer, job: str, trial_id: str, path: str) -> str:
    """The page of a file. Raises SeatrialError that says why there is none."""
    limit = _READ_MOST if path.lower().endswith(_READ_WHOLE) else _READ_LITTLE
    content = read_bounded(place_of(trial_id, path), view.library.folder(job), limit)
    raw = view.links.raw(job, trial_id, path)
    shown = show_file(path, content, RawAddress(raw, view.links.kind) if raw else None)
    values = {"job": job, "trial_id": trial_id, "path": path, "size": content.size, "shown": shown, "raw": raw}
    return render("file.html.jinja", view.links, title=path, **values)


def _refused(view: Viewer, error: SeatrialError) -> web.Response:
    return html(render("error.html.jinja", view.links, title="That cannot be shown", text=str(error)), status=404)


async def _file(request: web.Request) -> web.Response:
    view, asked = request.app[VIEW], request.match_info
    try:
        return html(await asyncio.to_thread(file_page, view, asked["job"], asked["trial"], asked["path"]))
    except SeatrialError as error:
        return _refused(view, error)


async def _raw(request: web.Request) -> web.StreamResponse:
    view, asked = request.app[VIEW], request.match_info
    try:
        folder = await asyncio.to_thread(view.library.folder, asked["job"])
        with open_below(place_of(asked["trial"], asked["path"]), folder) as file:
            return await _send(request, file, asked["path"])
    except SeatrialError as error:
        return _refused(view, error)


async def _send(request: web.Request, file: int, name: str) -> web.StreamResponse:
    """Hand out what is asked for of a file, piece by piece, while it stays open."""
    size = os.fstat(file).st_size
    part = _part(request, size)
    if part is None:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{size}"})
    head = await asyncio.to_thread(os.pread, file, _LOOKED_AT, 0)
    response = web.StreamResponse(headers=raw_headers(name, head))
    if "Range" in request.headers:
        response.set_status(206)
        response.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    response.content_length = len(part)
    await response.prepare(request)
    for position in part[::_CHUNK] if request.method != "HEAD" else ():
        wanted = min(_CHUNK, part.stop - position)
        piece = await asyncio.to_thread(os.pread, file, wanted, position)
        if len(piece) < wanted:
            # It became shorter than was promised; whatever came next on this connection would pass for the rest of it.
            response.force_close()
            break
        await response.write(piece)
    return response


def _part(request: web.Request, size: int) -> range | None:
    """Which bytes of a file are asked for, None for some that it does not have."""
    try:
        asked = range(size)[request.http_range]
    except ValueError:
        return None
    return asked if asked or "Range" not in request.headers else None


def routes() -> list[web.RouteDef]:
    trial = "/jobs/{job}/trials/{trial}"
    return [web.get(f"{trial}/files/{{path:.+}}", _file), web.get(f"{trial}/raw/{{path:.+}}", _raw)]
