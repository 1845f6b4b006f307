"""What comes in over HTTP, read as a request to a model: whether it is worth reading, and what it says."""

from typing import Any

import orjson
from aiohttp import web

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.bodies import BodyTooLargeError, Spooled
from seatrial.gateway.dialects import DIALECTS, google_paths
from seatrial.gateway.routes import NoRoute, Route, find_route, split_key
from seatrial.gateway.session import Session

_MOST_PARTS = 2_000_000  # an empty table takes 64 bytes of memory for 3 of JSON


UPGRADE_REQUIRED = 426
"""What agents that would rather have a WebSocket go on without one for, at once: Codex asks for one first."""


class RefusedError(Exception):
    """A request that is no call; the message is for the agent."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


_KEY_VARIABLES = "OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY (they hold the same key)"


def _wrong_key(credential: str) -> str:
    found = "is not the key of this trial" if credential else "is missing"
    return f"the API key {found}; send the one that is in the variable {_KEY_VARIABLES}, in place of a fixed one"


def admitted(session: Session, request: web.BaseRequest) -> Route:
    """Where a request goes, before its body is read. Raises RefusedError."""
    if request.method == "GET" and request.headers.get("upgrade", "").lower() == "websocket":
        raise RefusedError(UPGRADE_REQUIRED, "there are no WebSockets here; send a POST")
    target, key = split_key(request.raw_path)
    credential = _credential(request, key)
    if not session.opens(credential):
        raise RefusedError(401, _wrong_key(credential))
    route = find_route(request.method, target)
    if isinstance(route, NoRoute):
        raise RefusedError(route.status, route.reason)
    try:
        session.bodies.check(request.content_length or 0)
    except BodyTooLargeError as error:
        raise RefusedError(413, str(error)) from None
    return route


def _credential(request: web.BaseRequest, in_query: str) -> str:
    headers = request.headers
    return (
        headers.get("x-api-key")
        or headers.get("authorization", "").removeprefix("Bearer ").strip()
        or headers.get("x-goog-api-key")
        or in_query
    )


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
    if dialect == "google":
        payload = _with_path(payload, route.path)
    if not isinstance(payload.get("stream"), bool | None):
        # Some providers take 1 or "yes" for true; nobody could tell what such an answer is.
        raise RefusedError(400, f"`stream` is {payload['stream']!r:.40}, expected true or false")
    stream = dialect is not None and DIALECTS[dialect].asks_for_stream(payload)
    return ModelRequest(route.path, method, dialect, payload, body, headers, stream, None, session.number)


def _with_path(payload: dict[str, Any], target: str) -> dict[str, Any]:
    """What a request to Google says in its body, and in its path. Nobody may say one thing here and another there."""
    path = google_paths.read_path(target)
    assert path is not None  # noqa: S101 - the route says that it is one
    if payload.get("model") not in (None, path.model, f"models/{path.model}"):
        raise RefusedError(400, f"`model` is {payload['model']!r:.100}, but the path says {path.model!r}")
    if "stream" in payload:
        raise RefusedError(
            400, "there is no field `stream` in this dialect; ask for a stream by :streamGenerateContent"
        )
    return google_paths.with_path(payload, path)


def read_spooled(session: Session, request: web.BaseRequest, route: Route, spooled: Spooled) -> ModelRequest:
    """The request with a body that is in a file. Raises RefusedError, or OSError."""
    body = spooled.load()
    if body.count(b"[") + body.count(b"{") > _MOST_PARTS:
        raise RefusedError(413, f"the request has more than {_MOST_PARTS:,} brackets")
    spooled.fingerprint = hash(body)
    return read_request(session, request, route, body)._replace(spooled=spooled)
