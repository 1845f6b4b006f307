"""Who we are to a registry: what `docker login` left in `config.json`, or what its credential helpers answer."""

import asyncio
import base64
import binascii
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.concurrency import finish
from seatrial.images.reference import DOCKER_HUB

_HUB_KEY = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"  # noqa: S105 - how helpers say that the secret is a token
_HELPER_SEC = 60.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password, or a token to ask for tokens with; neither when anonymous.

    `source` tells where they come from, or why there are none.
    """

    source: str
    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def anonymous(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.password or self.identity_token)


async def find_credentials(domain: str, environ: Mapping[str, str] = os.environ) -> Credentials:
    """What is known for a registry. Never raises: what cannot be read or asked is told in `source`."""
    path = _config_path(environ)
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Credentials(f"anonymous: there is no {path}")
    except (OSError, ValueError) as error:
        return Credentials(f"anonymous: {path} cannot be read: {error}")
    if not isinstance(config, dict):
        return Credentials(f"anonymous: {path} is not a table")
    helper = _table(config, "credHelpers").get(domain) or config.get("credsStore")
    if isinstance(helper, str) and helper:
        answered = await _ask_helper(helper, _HUB_KEY if domain == DOCKER_HUB else domain, environ)
        if not answered.anonymous or not _entry(config, domain):
            return answered
    return _written(_entry(config, domain), domain, path)


def _config_path(environ: Mapping[str, str]) -> Path:
    folder = environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path(environ.get("HOME") or Path.home()) / ".docker") / "config.json"


def _table(config: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def _entry(config: Mapping[str, Any], domain: str) -> dict[str, Any]:
    """What `auths` has for a registry, under whichever of its names."""
    for key, value in _table(config, "auths").items():
        host = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
        hub = domain == DOCKER_HUB and host in ("index.docker.io", "docker.io", "registry-1.docker.io")
        if isinstance(value, dict) and value and (host == domain or hub):
            return value
    return {}


def _written(entry: dict[str, Any], domain: str, path: Path) -> Credentials:
    if not entry:
        return Credentials(f"anonymous: {path} has nothing for {domain}")
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if isinstance(entry.get("auth"), str) and entry["auth"]:
        try:
            username, _, password = base64.b64decode(entry["auth"].strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            return Credentials(
                f"anonymous: {path} has an `auth` for {domain} that is not base64 of user:password: {error}"
            )
    token = str(entry.get("identitytoken") or "")
    return Credentials(f"{username or 'a token'} of {path}", username, password.rstrip("\0"), token)


async def _ask_helper(name: str, server: str, environ: Mapping[str, str]) -> Credentials:
    program = f"docker-credential-{name}"
    path = shutil.which(program, path=environ.get("PATH"))
    if path is None or "/" in name:
        return Credentials(f"anonymous: the credential helper {program} is not on the PATH")
    process = await asyncio.create_subprocess_exec(
        path,
        "get",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environ),
    )
    try:
        async with asyncio.timeout(_HELPER_SEC):
            out, _ = await process.communicate(server.encode())
    except TimeoutError:
        return Credentials(f"anonymous: {program} did not answer within {_HELPER_SEC:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await finish(process.wait())
    return _answer_of(program, process.returncode, out)


def _answer_of(program: str, status: int | None, out: bytes) -> Credentials:
    try:
        answer = json.loads(out) if status == 0 else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not answer.get("Secret"):
        words = out.decode("utf-8", "replace").strip()[:200]
        return Credentials(f"anonymous: {program} has none: {words if status else 'its answer is not readable'}")
    username, secret = str(answer.get("Username") or ""), str(answer["Secret"])
    if username == _TOKEN_USER:
        return Credentials(f"a token of {program}", identity_token=secret)
    return Credentials(f"{username} of {program}", username, secret)
