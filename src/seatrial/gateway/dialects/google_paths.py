"""Where Google's dialect is spoken. Its paths name the model, and whether the answer is to be streamed.

Inside the gateway both are fields of the payload, as in every other dialect: `model` and `stream`. They are taken out
of it again before it is sent.
"""

import re
from typing import NamedTuple

from seatrial.gateway.dialects.api import Payload

NAME = r"[A-Za-z0-9][A-Za-z0-9._:@-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@-]*){0,2}"
"""A model's name, as it may stand in a path."""

USUAL_VERSION = "v1beta"
_PATH = re.compile(rf"/(v1|v1beta|v1alpha)/models/({NAME}):(generateContent|streamGenerateContent|countTokens)")
_NAME = re.compile(NAME)
_LONGEST_NAME = 256
_STREAM = "streamGenerateContent"
_EVENTS = "?alt=sse"
_IN_PATH = frozenset({"model", "stream"})


class GooglePath(NamedTuple):
    """What a path says. Streams come as server-sent events if `events`, else as one JSON array that grows."""

    version: str
    model: str
    method: str
    events: bool = False

    @property
    def is_call(self) -> bool:
        """Whether a model answers at it; tokens are only counted at the other one."""
        return self.method != "countTokens"

    @property
    def stream(self) -> bool:
        """Whether the answer is streamed."""
        return self.method == _STREAM

    def written(self) -> str:
        """The path again, in the one form in which it leaves."""
        return f"/{self.version}/models/{self.model}:{self.method}{_EVENTS if self.stream and self.events else ''}"


def read_path(target: str) -> GooglePath | None:
    """What a path of this dialect says; None for any other."""
    path, _, query = target.partition("?")
    found = _PATH.fullmatch(path)
    return None if found is None else GooglePath(found[1], found[2], found[3], "alt=sse" in query.split("&"))


def is_model_name(name: object) -> bool:
    """Whether something may stand in a path as the name of a model. Nothing else may: it goes out with a key."""
    return (
        isinstance(name, str)
        and len(name) <= _LONGEST_NAME
        and _NAME.fullmatch(name.removeprefix("models/")) is not None
    )


def path_for(payload: Payload, version: str = USUAL_VERSION) -> str:
    """The path for a payload; streams are always asked for as events. Raises ValueError for a name that is none."""
    name = payload.get("model")
    if not isinstance(name, str) or not is_model_name(name):
        raise ValueError("`model` has to be a name of letters, digits and . _ : @ - to stand in a path")
    method = _STREAM if payload.get("stream") is True else "generateContent"
    return GooglePath(version, name.removeprefix("models/"), method, events=True).written()


def with_path(payload: Payload, path: GooglePath) -> Payload:
    """A body with what its path says."""
    return {**payload, "model": path.model, "stream": path.stream}


def without_path(payload: Payload) -> Payload:
    """A payload as it is sent."""
    return {name: value for name, value in payload.items() if name not in _IN_PATH}
