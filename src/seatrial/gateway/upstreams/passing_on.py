"""What of a request goes on to the provider, and what of its answer goes back: addresses and headers.

The agent's credentials stay here, and so does whatever would tell it whose account is used.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from yarl import URL

from seatrial.gateway.dialects import dialect_of
from seatrial.gateway.dialects.google_paths import read_path
from seatrial.model.trace import Dialect

ANTHROPIC_VERSION = "2023-06-01"

_TARGET = re.compile(r"/[!-\"$-~]*\Z")  # printable ASCII without a fragment
_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|\Z)")
_OWN_VERSION = re.compile(r"\A/v1(?:/|(?:beta|alpha)/(?=models\b))")
_DOTS = re.compile(r"/(\.|%2e){1,2}(/|\Z)", re.IGNORECASE)

_SENT = frozenset(
    {"accept", "content-type", "http-referer", "idempotency-key", "openai-beta", "user-agent", "x-client-request-id"}
    | {"x-title"}
)
_SENT_PREFIXES = ("anthropic-", "x-stainless-")

_KEPT_BACK = frozenset(
    {
        # of the connection, or of a form in which the body no longer is
        *("connection", "content-encoding", "content-length", "keep-alive", "proxy-authenticate", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade", "proxy-authentication-info"),
        # of the server and the account behind the key
        *("alt-svc", "anthropic-organization-id", "cf-ray", "date", "openai-organization", "openai-project"),
        *("report-to", "nel", "server", "set-cookie", "strict-transport-security", "via", "www-authenticate"),
    }
)


@lru_cache(maxsize=256)
def target_url(base_url: str, path: str) -> URL:
    """The address of a path at a provider, whether or not its base address ends in `/v1`. Raises ValueError.

    A path that could lead out of the base address is refused: our key would go with it.
    """
    if not _TARGET.match(path) or _DOTS.search(path.partition("?")[0]):
        raise ValueError(f"{path[:200]!r} is not a path that can be passed on")
    if _VERSION.search(URL(base_url).path):
        path = _OWN_VERSION.sub("/", path)
    elif not is_googles(path) and dialect_of(path) and not path.startswith("/v1/"):
        path = "/v1" + path
    return URL(base_url + path, encoded=True)


def is_googles(path: str) -> bool:
    """Whether a path is one of Google's API."""
    return path.startswith(("/v1beta/", "/v1alpha/")) or read_path(path) is not None


def sent_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an agent's request that mean something to a provider, with names in small letters.

    Only in ASCII: what cannot be sent again would be a failure of ours, and the agent's to choose.
    """
    return {low: value for name, value in headers.items() if (low := _sent_name(name)) and value.isascii()}


def returned_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a provider's answer that are meant for the agent, with names in small letters."""
    return {low: value for name, value in headers.items() if (low := _returned_name(name))}


@lru_cache(maxsize=256)
def _sent_name(name: str) -> str | None:
    low = name.lower()
    return low if low in _SENT or low.startswith(_SENT_PREFIXES) else None


@lru_cache(maxsize=256)
def _returned_name(name: str) -> str | None:
    low = name.lower()
    return None if low in _KEPT_BACK else low


def key_headers(key: str | None, dialect: Dialect | None) -> dict[str, str]:
    """How a key is shown in a dialect."""
    if dialect == "anthropic":
        return {"x-api-key": key} if key else {}
    if dialect == "google":
        return {"x-goog-api-key": key} if key else {}
    return {"authorization": f"Bearer {key}"} if key else {}
