"""HTTP/1.x as a forward proxy sees it: what a head means, and how it is passed on.

Parsing is strict on purpose. Whatever two parsers could read differently is refused, so that what was checked is what
the origin gets. Who may be reached is decided in `hosts.py`; connections are made and owned in `proxy.py`.
"""

import re
from base64 import b64decode
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from seatrial.sandbox.hosts import Address, parse_authority

MAX_HEAD = 64 * 2**10
MAX_REASON = 2000

Headers = tuple[tuple[str, str], ...]
Framing = int | Literal["chunked", "until-close"]
"""Where a body ends: after so many bytes, after the last chunk, or with the connection."""

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[\t -~\x80-\xff]*"
_REQUEST_LINE = re.compile(rf"({_NAME}) ([!-~]+) (HTTP/1\.[01])")
_STATUS_LINE = re.compile(rf"HTTP/1\.[01] ([1-9][0-9]{{2}})(?: {_VALUE})?")
_FIELD = re.compile(rf"({_NAME}):[\t ]*({_VALUE})")
_ABSOLUTE = re.compile(r"http://([^/?#]+)([^#]*)", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,18}")

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "te", "upgrade"}) | frozenset(
    {"proxy-authenticate", "proxy-authentication-info", "proxy-authorization"}
)
# What says where a body ends must reach whoever reads that body, even if a Connection header names it.
_FRAMING_FIELDS = frozenset({"content-length", "transfer-encoding"})


class Refusal(Exception):
    """The answer a client gets instead of what it asked for: a status and one line that says why."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = HTTPStatus(status)
        self.reason = " ".join(reason.split())[:MAX_REASON]
        super().__init__(f"{status} {self.reason}")

    def render(self) -> bytes:
        """The whole response. The reason is in the status line too: many clients show nothing else of a tunnel."""
        body = f"{self.reason}\n".encode()
        phrase = self.reason.encode("ascii", "backslashreplace")
        challenge = b'Proxy-Authenticate: Basic realm="seatrial"\r\n' if self.status == 407 else b""
        return (
            b"HTTP/1.1 %d %s: %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n%s"
        ) % (self.status, self.status.phrase.encode(), phrase, challenge, len(body), body)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a client asks for; `target` is in origin-form and empty for CONNECT."""

    method: str
    host: Address | str
    port: int
    target: str
    version: str
    headers: Headers
    body: Framing

    @property
    def authority(self) -> str:
        """Host and port, as people write them."""
        return f"{f'[{self.host}]' if ':' in str(self.host) else self.host}:{self.port}"

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password of the proxy's Basic authentication; both empty when there are none."""
        scheme, _, encoded = (_value(self.headers, "proxy-authorization") or "").partition(" ")
        if scheme.lower() != "basic":
            return "", ""
        try:
            user, _, password = b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")
        except ValueError:
            return "", ""
        return user, password

    def render(self) -> bytes:
        """The head for the origin, whatever Host the client had claimed."""
        kept = tuple(field for field in end_to_end(self.headers) if field[0].lower() != "host")
        host = self.authority.removesuffix(":80")
        return _render(f"{self.method} {self.target} {self.version}", (("Host", host), *kept, ("Connection", "close")))


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What an origin answers; below 200 another head follows."""

    status: int
    line: str
    headers: Headers
    body: Framing

    def render(self) -> bytes:
        """The head for the client."""
        closing = (("Connection", "close"),) if self.status >= 200 else ()
        return _render(self.line, (*end_to_end(self.headers), *closing))


def parse_request(head: bytes) -> RequestHead:
    """The request in a head that ends with its empty line. Raises Refusal (400)."""
    line, headers = _split(head)
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise Refusal(400, "the request line is malformed")
    method, target, version = match.groups()
    if method == "CONNECT":
        host, port = _authority(target, None)
        return RequestHead(method, host, port, "", version, headers, 0)
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise Refusal(400, "this is a forward proxy: ask for http://host/path, or CONNECT host:port for TLS")
    host, port = _authority(absolute[1], 80)
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    return RequestHead(method, host, port, path, version, headers, _request_framing(version, headers))


def parse_response(head: bytes, method: str) -> ResponseHead:
    """The response to a request with this method. Raises Refusal, whose status means nothing here."""
    line, headers = _split(head)
    match = _STATUS_LINE.fullmatch(line)
    if match is None or match[1] == "101":
        raise Refusal(502, "the status line is malformed" if match is None else "nobody asked for another protocol")
    status = int(match[1])
    coding = _value(headers, "transfer-encoding")
    if coding is not None:
        headers = tuple(field for field in headers if field[0].lower() != "content-length")
    bodiless = method == "HEAD" or status < 200 or status in {204, 304}
    return ResponseHead(status, line, headers, 0 if bodiless else _response_framing(coding, headers))


def end_to_end(headers: Headers) -> Headers:
    """The headers without those meant for this hop, among them all that a Connection header names."""
    named = {token.strip().lower() for token in (_value(headers, "connection") or "").split(",")}
    dropped = _HOP_BY_HOP | (named - _FRAMING_FIELDS)
    return tuple(field for field in headers if field[0].lower() not in dropped)


def _split(head: bytes) -> tuple[str, Headers]:
    line, *fields = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    matches = [_FIELD.fullmatch(field) for field in fields]
    if not all(matches):
        raise Refusal(400, "a header line is malformed")
    return line, tuple((match[1], match[2].rstrip("\t ")) for match in matches if match)


def _render(line: str, headers: Headers) -> bytes:
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


def _value(headers: Headers, name: str) -> str | None:
    """The value of a header, or None; several are one list, which is no valid length, coding or credential."""
    values = [value for field, value in headers if field.lower() == name]
    return ", ".join(values) if values else None


def _authority(text: str, default_port: int | None) -> tuple[Address | str, int]:
    found = parse_authority(text, default_port)
    if found is None:
        raise Refusal(400, f"{text} is no host with a port")
    return found


def _request_framing(version: str, headers: Headers) -> Framing:
    coding = _value(headers, "transfer-encoding")
    if coding is None:
        return _length(headers, 0)
    if coding.lower() != "chunked" or version == "HTTP/1.0" or _value(headers, "content-length") is not None:
        raise Refusal(400, "a body has a Content-Length or is chunked; nothing else can be passed on")
    return "chunked"


def _response_framing(coding: str | None, headers: Headers) -> Framing:
    if coding is None:
        return _length(headers, "until-close")
    return "chunked" if coding.lower().rpartition(",")[2].strip() == "chunked" else "until-close"


def _length(headers: Headers, otherwise: Framing) -> Framing:
    text = _value(headers, "content-length")
    if text is None:
        return otherwise
    if not _LENGTH.fullmatch(text):
        raise Refusal(400, f"Content-Length {text[:40]!r} is no length")
    return int(text)
