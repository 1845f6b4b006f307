"""What went wrong, as a page or as JSON: our own errors say what to do, all others only that they are in the log."""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from seatrial.errors import JobError, SeatrialError, UsageError
from seatrial.view.links import Links
from seatrial.view.templating import render

_LOG = logging.getLogger(__name__)
_TITLES = {400: "That cannot be shown", 403: "Not allowed", 404: "Not found", 429: "Too many guesses"}
_FOUND_NOTHING = "There is no page at this address."


@web.middleware
async def errors_as_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with what a handler raises."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        response = _answer(request, error.status, _words(error))
        response.headers.update(
            {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
        )
        return response
    except SeatrialError as error:
        return _answer(request, _status(error), str(error))
    except ConnectionError:
        raise  # whoever asked is gone
    except Exception:  # noqa: BLE001 - whatever it is, others are still to be answered
        _LOG.exception("%s %s", request.method, request.path)
        return _answer(request, 500, "The viewer failed at this. What happened is in the terminal in which it runs.")


def _words(error: web.HTTPException) -> str:
    """What a handler said, or what there is to say where it said nothing."""
    if error.text and error.text != f"{error.status}: {error.reason}":
        return error.text
    return _FOUND_NOTHING if error.status == 404 else f"{error.reason}."


def _status(error: SeatrialError) -> int:
    if isinstance(error, JobError):
        return 404
    return 400 if isinstance(error, UsageError) else 500


def _answer(request: web.Request, status: int, text: str) -> web.Response:
    if request.path.startswith("/api/"):
        return web.json_response({"error": text}, status=status)
    title = _TITLES.get(status, "Something went wrong")
    page = render("error.html.jinja", Links(), title=title, text=text)
    return web.Response(text=page, status=status, content_type="text/html")
