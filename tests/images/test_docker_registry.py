"""Pulling from a registry that we did not write: Debian's docker-registry, filled over its own upload protocol."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.registry import RegistryOptions
from seatrial.images.store import open_store
from seatrial.testing.registry import Registry, digest, pack
from tests.images.support import TIMEOUT_SEC, needs_root

PROGRAM = shutil.which("docker-registry")
pytestmark = [
    needs_root,
    pytest.mark.skipif(PROGRAM is None, reason="no docker-registry: install docker-registry"),
]
LAYERS = [pack({"etc/name": b"one", "data": os.urandom(200_000)}), pack({"etc/name": b"two"})]
CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def docker_registry(folder: Path) -> AsyncIterator[str]:
    """The address of a registry that runs for a moment."""
    address = f"127.0.0.1:{(port := free_port())}"
    settings = folder / "config.yml"
    settings.write_text(CONFIG.format(root=folder / "data", port=port))
    quiet = subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(PROGRAM or "", "serve", settings, stdout=quiet, stderr=quiet)
    try:
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"http://{address}/v2/") as answer:
                        assert answer.status == 200
                        break
                except aiohttp.ClientConnectorError:
                    assert process.returncode is None, "docker-registry has ended"
                    await asyncio.sleep(0.05)
        yield address
    finally:
        process.kill()
        await process.wait()


async def upload(address: str, ours: Registry) -> None:
    """Push what one of our registries has."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        base = f"http://{address}/v2/team/app"
        for name, raw in ours.blobs.items():
            async with session.post(f"{base}/blobs/uploads/") as answer:
                place = answer.headers["Location"]
            async with session.put(f"{place}&digest={name}", data=raw):
                pass
        kind, raw = ours.manifests["team/app", "1"]
        assert json.loads(raw)["layers"]
        async with session.put(f"{base}/manifests/1", data=raw, headers={"Content-Type": kind}):
            pass


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_an_image_comes_from_a_registry_we_did_not_write(tmp_path, compression):
    async def play():
        ours = Registry()
        manifest = ours.push("team/app:1", LAYERS, config={"User": "al"}, compression=compression)
        options = PullOptions(environ={"DOCKER_CONFIG": str(tmp_path)}, registries=RegistryOptions())
        async with asyncio.timeout(TIMEOUT_SEC), docker_registry(tmp_path) as address:
            await upload(address, ours)
            blob = max(ours.blobs.values(), key=len)
            async with open_store(tmp_path / "store") as store:
                # So that a range is asked for.
                (store.blobs / f"{digest(LAYERS[0])[7:]}.part").write_bytes(blob[: len(blob) // 2])
                image = await pull_image(store, f"{address}/team/app:1", options)
                assert (await pull_image(store, f"{address}/team/app@{manifest}", options)).digest == image.digest
                return store.image(image)

    image = asyncio.run(play())
    assert image.config.user == "al"
    assert [(layer / "etc/name").read_text() for layer in image.layers] == ["one", "two"]
