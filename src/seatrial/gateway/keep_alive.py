"""Keep-alives: bytes that a provider sends so that nobody hangs up, and that are nothing of an answer.

Comments and blank lines (OpenRouter, DeepSeek), `ping` events (Anthropic), `keepalive` events (OpenAI).
"""

_BEGINNINGS = (b":", b"\n", b"\r", b"event: ping", b"event:ping", b"event: keepalive", b'data: {"type"')
_LINES = (b"event: ping", b"event:ping", b"event: keepalive", b"event:keepalive")
_DATA = (b'"type":"ping"', b'"type":"keepalive"')
_LONGEST = 4096


class KeepAlives:
    """Tells the chunks of one stream that are only keep-alives from the others, however they are cut."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = b""  # a line without its end so far, if it may be one of them

    def is_one(self, chunk: bytes) -> bool:
        """Whether nothing of an answer has come with this chunk."""
        # Nearly every chunk of a stream ends here.
        if not self._begun and not chunk.startswith(_BEGINNINGS):
            return False
        *lines, rest = (self._begun + chunk).replace(b"\r", b"\n").split(b"\n")
        only = all(map(_is_keep_alive, lines)) and (_is_keep_alive(rest) or _may_become_one(rest))
        self._begun = rest if only and len(rest) < _LONGEST else b""
        return only


def _is_keep_alive(line: bytes) -> bool:
    if not line or line.startswith(b":") or line in _LINES:
        return True
    return line.startswith(b"data:") and len(line) < _LONGEST and any(kind in line.replace(b" ", b"") for kind in _DATA)


def _may_become_one(line: bytes) -> bool:
    return any(known.startswith(line) for known in _LINES) or (b"data:".startswith(line) and len(line) < len(b"data:"))
