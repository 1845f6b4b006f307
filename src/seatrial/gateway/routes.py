"""Which requests of an agent may leave for the upstream and in which form, and what an agent is told instead.

Only known pairs of method and path do. What leaves is written here, not taken from the agent, apart from the names of
models and a few values of queries: no way of writing a path leads anywhere else with the user's key.
"""

import re
from collections.abc import Container
from functools import lru_cache
from typing import NamedTuple, Protocol

import orjson

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.base import encode_event
from seatrial.gateway.budget import most_of
from seatrial.gateway.dialects import DIALECTS, dialect_of, dialect_of_headers, owner_of_path
from seatrial.gateway.dialects.base import Dialect, ModelPaths
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.session import Session
from seatrial.model.trace import CallErrorKind, DialectName

_LONGEST_TARGET = 1024
_SHOWN = 200
_PLAIN = re.compile(r"[A-Za-z0-9._:@/-]+")
_MODEL = re.compile(r"/v1/models/[A-Za-z0-9][A-Za-z0-9._:@-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@-]*){0,2}")
_VALUE = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# What SDKs and known agents add: `beta` for messages, versions for Azure and of Codex, the pages of a list of models.
_QUERIES = frozenset({"beta", "api-version", "client_version", "limit", "after", "after_id", "before_id"})


class Route(NamedTuple):
    """Where a request goes."""

    path: str
    dialect: DialectName | None = None
    counts: bool = False
    """Whether it is a call, with its place in the record and in the limits of the trial."""


class NoRoute(NamedTuple):
    """Why a request goes nowhere."""

    status: int
    reason: str


_CALLS = {each.path: Route(each.path, each.name, counts=True) for each in DIALECTS.values() if each.path}
_COUNTS = {each.count_path: Route(each.count_path) for each in DIALECTS.values() if each.count_path}
_EMBEDDINGS = Route("/v1/embeddings", counts=True)
_KNOWN: dict[str, dict[str, Route]] = {
    "POST": {**_CALLS, **_COUNTS, _EMBEDDINGS.path: _EMBEDDINGS},
    "GET": {"/v1/models": Route("/v1/models")},
}


@lru_cache(maxsize=256)
def find_route(method: str, target: str) -> Route | NoRoute:
    """Where a request goes, by its method and by its target exactly as it was sent. Never raises."""
    if len(target) > _LONGEST_TARGET:
        return NoRoute(414, f"the path has {len(target):,} characters; at most {_LONGEST_TARGET:,} are passed on")
    path, _, query = target.partition("?")
    if not target.startswith("/") or not _PLAIN.fullmatch(path) or "//" in path or _has_dots(path):
        return NoRoute(400, f"{shown(path)} is not a path that is passed on: write it plainly, from its first slash on")
    if (owner := owner_of_path(path)) is not None:
        return _own_route(method, path, query, *owner)
    path = path if path.startswith("/v1/") else f"/v1{path}"
    path = path.removesuffix("/")
    route = _KNOWN.get(method, {}).get(path)
    if route is None and method == "GET" and _MODEL.fullmatch(path):
        route = Route(path)
    if route is None:
        return _unknown(method, path)
    if (refused := _refused_query(query, _QUERIES)) is not None:
        return refused
    return route._replace(path=f"{path}?{query}") if query else route


def _own_route(method: str, path: str, query: str, dialect: Dialect, paths: ModelPaths) -> Route | NoRoute:
    if (refused := _refused_query(query, paths.queries)) is not None:
        return refused
    found = paths.read(f"{path}?{query}")
    if found is not None:
        if method != "POST":
            return NoRoute(405, f"{shown(method)} is not passed on for {path}; use POST")
        return Route(found.target, dialect.name, counts=True) if found.is_call else Route(found.target)
    if method == "GET" and paths.lists_models(path):
        return Route(f"{path}?{query}" if query else path)
    return _unknown(method, path)


def _refused_query(query: str, known: frozenset[str]) -> NoRoute | None:
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in known or not _VALUE.fullmatch(value):
            return NoRoute(400, f"the query {shown(pair)} is not passed on; known are {', '.join(sorted(known))}")
    return None


def split_key(target: str) -> tuple[str, str]:
    """A target without the key that Google's clients may put into its query, and that key, if there is one."""
    if "key=" not in target:
        return target, ""
    path, _, query = target.partition("?")
    pairs = query.split("&")
    rest = "&".join(pair for pair in pairs if not pair.startswith("key="))
    key = next((pair.removeprefix("key=") for pair in pairs if pair.startswith("key=")), "")
    return f"{path}?{rest}" if rest else path, key


def error_dialect(target: str, headers: Container[str]) -> DialectName:
    """The dialect in which to refuse a request: that of its path if it has one, else the one its headers speak."""
    path = target.partition("?")[0]
    if (owner := owner_of_path(path)) is not None:
        return owner[0].name
    named = (each.name for each in DIALECTS.values() if each.path and each.path.removeprefix("/v1") in path)
    return next(named, None) or dialect_of_headers(headers) or "openai_chat"


def shown(text: str) -> str:
    """What a stranger wrote, short and in printable ASCII."""
    return ascii(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")


def _has_dots(path: str) -> bool:
    return any(part in {".", ".."} for part in path.split("/"))


def _unknown(method: str, path: str) -> NoRoute:
    methods = [known for known, routes in _KNOWN.items() if path in routes]
    called = dialect_of(path)
    if method == "GET" and called is not None and DIALECTS[called].tries_websocket:
        return NoRoute(426, "there are no WebSockets here; send a POST")
    if methods:
        return NoRoute(405, f"{shown(method)} is not passed on for {path}; use {methods[0]}")
    own = [each.model_paths.example for each in DIALECTS.values() if each.model_paths is not None]
    known = ", ".join([*_CALLS, *own])
    return NoRoute(404, f"there is nothing at {shown(path)} of this gateway; it passes on {known}")


# The way back to an agent, and what goes there instead of an answer.

JSON = {"content-type": "application/json"}
# Both official SDKs obey it: what would fail again need not be tried again.
FINAL = {**JSON, "x-should-retry": "false"}


class Responder(Protocol):
    """The way back to the agent. Raises ConnectionError when nobody is there any more."""

    @property
    def begun(self) -> bool:
        """Whether the answer's status is out already."""
        ...

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Send status and headers."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer."""
        ...

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send an answer as a whole, at once."""
        ...


class CallRefusal(NamedTuple):
    """What the agent is told instead of an answer."""

    status: int
    kind: CallErrorKind
    message: str


async def refuse(responder: Responder, notes: CallNotes, dialect: DialectName, refusal: CallRefusal) -> None:
    """Tell the agent of an error as a provider would; in the middle of a stream as an event of it."""
    status, kind, message = refusal
    notes.failed(kind, status, message)
    speaker = DIALECTS[dialect]
    if responder.begun:
        event = speaker.error_event(status, kind, message)
        await responder.write(encode_event(event))
        return
    await responder.answer(status, FINAL, orjson.dumps(speaker.error_body(status, kind, message)))


async def afforded(session: Session, outgoing: ModelRequest, notes: CallNotes) -> ModelRequest | CallRefusal:
    """The request, once there is room for it in the trial's budget."""
    model, budget = outgoing.model, session.budget
    if (reason := session.unpriced(model)) is not None:
        return CallRefusal(400, "agent", reason)
    most = most_of(outgoing, session.price_of(model))
    if not budget.hold_now(most):
        await budget.hold(most)
    notes.held = most
    reason = budget.refusal()  # others may have used it up meanwhile
    return outgoing if reason is None else CallRefusal(429, "budget", reason)
