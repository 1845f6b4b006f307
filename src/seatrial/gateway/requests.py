"""What comes in over HTTP, read as a request to a model: whether it is worth reading, and what it says."""

import orjson
from aiohttp import web

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.bodies import BodyTooLargeError, Spooled
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.routes import NoRoute, Route, find_route
from seatrial.gateway.session import Session

_MOST_PARTS = 2_000_000  # an empty table takes 64 bytes of memory for 3 of JSON


UPGRADE_REQUIRED = 426
"""What agents that would rather have a WebSocket go on without one for, at once: Codex asks for one first."""


class RefusedError(Exception):
    """A request that is no call; the message is for the agent."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


_KEY_VARIABLES = "OPENAI_API_KEY or ANTHROPIC_API_KEY (they hold the same key)"


def _wrong_key(credential: str) -> str:
    found = "is not the key of this trial" if credential else "is missing"
    return f"the API key {found}; send the one that is in the variable {_KEY_VARIABLES}, in place of a fixed one"


def admitted(session: Session, request: web.BaseRequest) -> Route:
    """Where a request goes, before its body is read. Raises RefusedError."""
    headers = request.headers
    if request.method == "GET" and headers.get("upgrade", "").lower() == "websocket":
        raise RefusedError(UPGRADE_REQUIRED, "there are no WebSockets here; send a POST")
    credential = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not session.opens(credential):
        raise RefusedError(401, _wrong_key(credential))
    route = find_route(request.method, request.raw_path)
    if isinstance(route, NoRoute):
        raise RefusedError(route.status, route.reason)
    try:
        session.bodies.check(request.content_length or 0)
    except BodyTooLargeError as error:
        raise RefusedError(413, str(error)) from None
    return route


def read_request(session: Session, request: web.BaseRequest, route: Route, body: bytes) -> ModelRequest:
    """The request with this body. Raises RefusedError."""
    headers, method, dialect = request.headers, request.method, route.dialect
    if not route.counts:
        return ModelRequest(route.path, method, body=body, headers=headers, trial=session.number)
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"the request is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise RefusedError(400, "the request is not a JSON object")
    if not isinstance(payload.get("stream"), bool | None):
        # Some providers take 1 or "yes" for true; nobody could tell what such an answer is.
        raise RefusedError(400, f"`stream` is {payload['stream']!r:.40}, expected true or false")
    stream = dialect is not None and DIALECTS[dialect].asks_for_stream(payload)
    return ModelRequest(route.path, method, dialect, payload, body, headers, stream, None, session.number)


def read_spooled(session: Session, request: web.BaseRequest, route: Route, spooled: Spooled) -> ModelRequest:
    """The request with a body that is in a file. Raises RefusedError, or OSError."""
    body = spooled.load()
    if body.count(b"[") + body.count(b"{") > _MOST_PARTS:
        raise RefusedError(413, f"the request has more than {_MOST_PARTS:,} brackets")
    spooled.fingerprint = hash(body)
    return read_request(session, request, route, body)._replace(spooled=spooled)
