"""What a viewer was asked for."""

import ipaddress
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

LOOPBACK = "127.0.0.1"


def new_token() -> str:
    """A word that nobody guesses."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """Which folders are shown, and what may be done there. A folder is a job, or has jobs in it.

    With `access` of `read`, nothing is ever written. Whoever knows the `token` is let in; with a `password`, those who
    know that one instead.
    """

    folders: tuple[Path, ...]
    host: str = LOOPBACK
    port: int = 0
    access: Literal["review", "read"] = "review"
    token: str = field(default_factory=new_token, repr=False)
    password: str | None = field(default=None, repr=False)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
