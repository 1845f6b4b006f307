"""How images are named: `python:3.11`, `localhost:5000/team/app@sha256:…`, with the defaults everybody expects."""

import re
from dataclasses import dataclass

from seatrial.errors import UsageError

DOCKER_HUB = "docker.io"
_DEFAULT_TAG = "latest"
_MAX_NAME = 255
_DOMAIN = re.compile(
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*"
    r"|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Reference:
    """An image in a registry. It has a tag or a digest or both; then the digest decides."""

    domain: str
    path: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        """The full name, which means the same image everywhere."""
        return f"{self.domain}/{self.path}{self._version}"

    @property
    def familiar(self) -> str:
        """The name as people write it, without what goes without saying."""
        path = self.path
        if self.domain == DOCKER_HUB:
            return path.removeprefix("library/") + self._version
        return f"{self.domain}/{path}{self._version}"

    @property
    def _version(self) -> str:
        return (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")

    @property
    def wanted(self) -> str:
        return self.digest or self.tag or _DEFAULT_TAG


def parse_reference(text: str) -> Reference:
    """The image that `text` names. Raises UsageError that says which part is wrong."""
    name, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise _refusal(text, f"{digest!r} is not a digest (sha256: and 64 hexadecimal digits)")
    name, tag = _split_tag(name)
    if tag is not None and not _TAG.fullmatch(tag):
        raise _refusal(text, f"{tag!r} is not a tag (up to 128 letters, digits, dots, dashes, underscores)")
    domain, path = _split_domain(name)
    if not _DOMAIN.fullmatch(domain):
        raise _refusal(text, f"{domain!r} is not a host with an optional port")
    if not _PATH.fullmatch(path):
        hint = "; names are in lower case" if path != path.lower() else ""
        raise _refusal(text, f"{path!r} is not a name of letters, digits and single separators{hint}")
    if len(domain) + 1 + len(path) > _MAX_NAME:
        raise _refusal(text, f"the name is longer than {_MAX_NAME} characters")
    if not tag and not digest:
        tag = _DEFAULT_TAG
    return Reference(domain, path, tag, digest or None)


def is_digest(text: str) -> bool:
    """Whether a text is a digest that content can be checked against."""
    return _DIGEST.fullmatch(text) is not None


def _split_tag(name: str) -> tuple[str, str | None]:
    last = name.rpartition("/")[2]
    if ":" not in last:
        return name, None
    head, _, tag = name.rpartition(":")
    return head, tag


def _split_domain(name: str) -> tuple[str, str]:
    """The host and the rest: the first part is a host when no repository of Docker Hub could be called so."""
    first, slash, rest = name.partition("/")
    if not slash or not (any(sign in first for sign in ".:[") or first == "localhost" or first != first.lower()):
        domain, path = DOCKER_HUB, name
    else:
        domain, path = (DOCKER_HUB if first == "index.docker.io" else first), rest
    if domain == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return domain, path


def _refusal(text: str, reason: str) -> UsageError:
    return UsageError(
        f"{text!r} names no image: {reason}; expected something like `python:3.11` or `host:5000/team/app:1`"
    )
