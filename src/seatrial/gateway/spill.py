"""How a large request lets go of memory while an upstream is at work: its file stays, and what is short of its JSON."""

from typing import Any

from seatrial.gateway.api import FileTaker, ModelRequest, Upstream
from seatrial.gateway.dialects.google import config_of

_LONGEST_VALUE = 1000


def takes_files(upstream: Upstream) -> bool:
    """Whether an upstream sends large bodies from their files."""
    return isinstance(upstream, FileTaker) and upstream.takes_files


def spilled(request: ModelRequest, outgoing: ModelRequest) -> tuple[ModelRequest, ModelRequest]:
    """A large request and what goes to the upstream, without their bodies.

    Raises TooLargeError when the trial has no room for what goes out, or SpoolError.
    """
    assert request.spooled is not None  # noqa: S101 - only such requests are spilled
    file = request.spooled if outgoing.body is request.body else request.spooled.beside(outgoing.body)
    return lightened(request), lightened(outgoing)._replace(spooled=file)


def lightened(request: ModelRequest) -> ModelRequest:
    """A request without its body, and of its JSON only what is short."""
    return request._replace(body=b"", payload=None if request.payload is None else _short(request.payload))


def _short(payload: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in payload.items() if len(name) <= _LONGEST_VALUE and _is_short(value)}
    options = payload.get("stream_options")
    if isinstance(options, dict) and isinstance(options.get("include_usage"), bool):
        kept["stream_options"] = {"include_usage": options["include_usage"]}
    if config := config_of(payload):  # of Google's dialect, which has its limits in there
        kept["generationConfig"] = {name: value for name, value in config.items() if _is_short(value)}
    return kept


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONGEST_VALUE)
