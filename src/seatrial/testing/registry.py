"""A small container registry on loopback, with accounts and with faults on demand, for tests that pull images.

It keeps everything in memory and speaks what pulling needs of the registry protocol: manifests, indexes, blobs with
ranges, Basic and Bearer authentication, redirects to another server.
"""

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import zstandard
from aiohttp import web

from seatrial.images.config import host_platform

Compression = Literal["none", "gzip", "zstd"]
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_COMPRESS: dict[Compression, Callable[[bytes], bytes]] = {
    "none": lambda raw: raw,
    "gzip": lambda raw: gzip.compress(raw, 1),
    "zstd": lambda raw: zstandard.ZstdCompressor().compress(raw),
}


def digest(raw: bytes) -> str:
    """The digest of some bytes."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def pack(files: Mapping[str, bytes], members: Sequence[tarfile.TarInfo] = ()) -> bytes:
    """An archive of files, those whose directory is `bin` executable, and of members without content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            tar.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if "bin/" in name else 0o644
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Faults:
    """What goes wrong: each entry of a list is used up by one request for a blob."""

    cut_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    corrupt: set[str] = field(default_factory=set)
    no_ranges: bool = False
    redirect_to: str = ""


@dataclass
class Registry:
    """What a registry has, how it behaves, and what it was asked for.

    With `accounts`, it wants `access` by Basic authentication or by a token that its own token service hands out.
    """

    access: Literal["open", "basic", "token"] = "open"
    accounts: dict[str, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    address: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)

    def push(
        self,
        name: str,
        layers: Sequence[bytes],
        *,
        config: Mapping[str, Any] | None = None,
        compression: Compression = "gzip",
        platform: Mapping[str, str] | None = None,
    ) -> str:
        """Have an image `repository:tag` made of archives, lowest first; returns the digest of its manifest."""
        where = platform or {"architecture": host_platform().architecture, "os": "linux"}
        rootfs = {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}
        document = json.dumps({**where, "config": dict(config or {}), "rootfs": rootfs}).encode()
        blobs = [_COMPRESS[compression](layer) for layer in layers]
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST if compression == "zstd" else _DOCKER_MANIFEST,
            "config": self._add(document),
            "layers": [self._add(blob) for blob in blobs],
        }
        return self.put_manifest(name, manifest)

    def push_index(self, name: str, images: Mapping[str, str]) -> str:
        """Have an index of manifests that are there, by platform (`linux/arm64/v8`)."""
        repository = name.partition(":")[0]
        entries = []
        for platform, manifest in images.items():
            words = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
            kind, raw = self.manifests[repository, manifest]
            entries.append({"mediaType": kind, "digest": manifest, "size": len(raw), "platform": words})
        return self.put_manifest(name, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": entries})

    def put_manifest(self, name: str, document: Mapping[str, Any]) -> str:
        """Have a manifest as it is."""
        repository, _, tag = name.partition(":")
        raw = json.dumps(document).encode()
        entry = (str(document.get("mediaType", _MANIFEST)), raw)
        self.manifests[repository, tag or "latest"] = self.manifests[repository, digest(raw)] = entry
        return digest(raw)

    def _add(self, raw: bytes) -> dict[str, Any]:
        self.blobs[digest(raw)] = raw
        return {"mediaType": "application/octet-stream", "digest": digest(raw), "size": len(raw)}

    def fetched(self, kind: Literal["blobs", "manifests", "token"]) -> int:
        """How many requests there were of a kind."""
        return sum(f"/{kind}" in path for _, path, _ in self.requests)

    # How it answers

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        self.requests.append((request.method, request.path, request.headers.get("Authorization")))
        if request.path == "/token":
            return self._give_token(request)
        if not self._may(request):
            return web.json_response({"errors": [{"code": "UNAUTHORIZED"}]}, status=401, headers=self._challenge())
        repository, _, rest = request.path.removeprefix("/v2/").rpartition("/manifests/")
        if repository:
            return self._give_manifest(repository, rest)
        return await self._give_blob(request, request.path.rpartition("/")[2])

    def _may(self, request: web.Request) -> bool:
        shown = request.headers.get("Authorization", "")
        if self.access == "open":
            return True
        if self.access == "basic":
            return self._known(shown)
        return shown == "Bearer open sesame"

    def _known(self, shown: str) -> bool:
        return any(shown == f"Basic {_encode(name, word)}" for name, word in self.accounts.items())

    def _challenge(self) -> dict[str, str]:
        if self.access == "basic":
            return {"WWW-Authenticate": 'Basic realm="registry"'}
        scope = 'scope="repository:any:pull"'
        return {"WWW-Authenticate": f'Bearer realm="http://{self.address}/token",service="registry",{scope}'}

    def _give_token(self, request: web.Request) -> web.Response:
        if self.accounts and not self._known(request.headers.get("Authorization", "")):
            return web.json_response({"errors": [{"message": "who are you?"}]}, status=401)
        return web.json_response({"token": "open sesame"})

    def _give_manifest(self, repository: str, wanted: str) -> web.Response:
        found = self.manifests.get((repository, wanted))
        if found is None:
            return web.json_response({"errors": [{"message": "manifest unknown"}]}, status=404)
        kind, raw = found
        return web.Response(body=raw, content_type=kind, headers={"Docker-Content-Digest": digest(raw)})

    async def _give_blob(self, request: web.Request, wanted: str) -> web.StreamResponse:
        if self.faults.redirect_to:
            raise web.HTTPTemporaryRedirect(f"http://{self.faults.redirect_to}{request.path}")
        if self.faults.statuses:
            return web.Response(status=self.faults.statuses.pop(0), headers={"Retry-After": "1"})
        raw = self.blobs.get(wanted)
        if raw is None:
            return web.json_response({"errors": [{"message": "blob unknown"}]}, status=404)
        if wanted in self.faults.corrupt:
            raw = bytes([raw[0]]) + raw[1:-1][::-1] + raw[-1:]
        start = 0 if self.faults.no_ranges else request.http_range.start or 0
        return await self._send(request, raw, start)

    async def _send(self, request: web.Request, raw: bytes, start: int) -> web.StreamResponse:
        response = web.StreamResponse(status=206 if start else 200)
        if start:
            response.headers["Content-Range"] = f"bytes {start}-{len(raw) - 1}/{len(raw)}"
        response.content_length = len(raw) - start
        await response.prepare(request)
        if self.faults.cut_after and len(raw) > 2**10:  # configurations come through
            await response.write(raw[start : start + self.faults.cut_after.pop(0)])
            assert request.transport is not None  # noqa: S101 - the answer has just gone through it
            request.transport.close()
            return response
        await response.write(raw[start:])
        return response


@asynccontextmanager
async def serve(registry: Registry) -> AsyncIterator[Registry]:
    """Serve a registry on a free port of this machine; its `address` is `127.0.0.1:PORT`."""
    application = web.Application()
    application.router.add_get("/{path:.*}", registry.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        registry.address = "{}:{}".format(*runner.addresses[0][:2])
        yield registry
    finally:
        await runner.cleanup()


def _encode(name: str, word: str) -> str:
    return base64.b64encode(f"{name}:{word}".encode()).decode()
