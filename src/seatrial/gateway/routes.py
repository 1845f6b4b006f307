"""Which requests of an agent may leave for the upstream, and in which form.

Only known pairs of method and path do. What leaves is written here, not taken from the agent, apart from the names of
models and a few values of queries: no way of writing a path leads anywhere else with the user's key.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from seatrial.gateway.dialects import PATHS, google_paths
from seatrial.model.trace import Dialect

_LONGEST_TARGET = 1024
_SHOWN = 200
_PLAIN = re.compile(r"[A-Za-z0-9._:@/-]+")
_MODEL = re.compile(r"/v1/models/[A-Za-z0-9][A-Za-z0-9._:@-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@-]*){0,2}")
_VALUE = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# What SDKs and known agents add: `beta` for messages, versions for Azure and of Codex, the pages of a list of models.
_QUERIES = frozenset({"beta", "api-version", "client_version", "limit", "after", "after_id", "before_id"})
_GOOGLE_QUERIES = frozenset({"alt", "pageSize", "pageToken"})
_GOOGLE = re.compile(r"/v1(?:beta|alpha)/|/v1/models/.*:(?:generateContent|streamGenerateContent|countTokens)\Z")
_GOOGLE_MODELS = re.compile(rf"/(?:v1beta|v1alpha)/models(?:/{google_paths.NAME})?")
_GOOGLE_SHOWN = "/v1beta/models/MODEL:generateContent"


class Route(NamedTuple):
    """Where a request goes. One that `counts` is a call with its place in the record and in the limits of the trial."""

    path: str
    dialect: Dialect | None = None
    counts: bool = False


class NoRoute(NamedTuple):
    """Why a request goes nowhere."""

    status: int
    reason: str


_DIALECTS = {path: Route(path, dialect, counts=True) for dialect, path in PATHS.items()}
_BESIDE = {
    "/v1/embeddings": Route("/v1/embeddings", counts=True),
    "/v1/messages/count_tokens": Route("/v1/messages/count_tokens"),
    "/v1/responses/input_tokens": Route("/v1/responses/input_tokens"),
}
_KNOWN: dict[str, dict[str, Route]] = {
    "POST": _DIALECTS | _BESIDE,
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
    if _GOOGLE.match(path):
        return _google_route(method, path, query)
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


def _google_route(method: str, path: str, query: str) -> Route | NoRoute:
    if (refused := _refused_query(query, _GOOGLE_QUERIES)) is not None:
        return refused
    found = google_paths.read_path(f"{path}?{query}")
    if found is not None:
        if method != "POST":
            return NoRoute(405, f"{shown(method)} is not passed on for {path}; use POST")
        return Route(found.written(), "google", counts=True) if found.is_call else Route(found.written())
    if method == "GET" and _GOOGLE_MODELS.fullmatch(path):
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
    path, _, query = target.partition("?")
    if "key=" not in query:
        return target, ""
    pairs = query.split("&")
    rest = "&".join(pair for pair in pairs if not pair.startswith("key="))
    key = next((pair.removeprefix("key=") for pair in pairs if pair.startswith("key=")), "")
    return f"{path}?{rest}" if rest else path, key


def error_dialect(target: str, headers_say_anthropic: str | None) -> Dialect:
    """The dialect in which to refuse a request: that of its path if it has one, else the one its headers speak."""
    path = target.partition("?")[0]
    if _GOOGLE.match(path):
        return "google"
    for dialect, known in PATHS.items():
        if path.rstrip("/").endswith(known.removeprefix("/v1")):
            return dialect
    return "anthropic" if "/messages" in path or headers_say_anthropic is not None else "openai_chat"


def shown(text: str) -> str:
    """What a stranger wrote, short and in printable ASCII."""
    return ascii(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")


def _has_dots(path: str) -> bool:
    return any(part in {".", ".."} for part in path.split("/"))


def _unknown(method: str, path: str) -> NoRoute:
    methods = [known for known, routes in _KNOWN.items() if path in routes]
    if method == "GET" and path == PATHS["openai_responses"]:
        # Codex asks for a WebSocket here, and goes on without one at once when it hears this.
        return NoRoute(426, "there are no WebSockets here; send a POST")
    if methods:
        return NoRoute(405, f"{shown(method)} is not passed on for {path}; use {methods[0]}")
    known = ", ".join([*PATHS.values(), _GOOGLE_SHOWN])
    return NoRoute(404, f"there is nothing at {shown(path)} of this gateway; it passes on {known}")
