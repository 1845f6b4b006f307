"""Handing a build over to another program, here a script that behaves like one."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from seatrial.errors import BuildError, HostUnsupportedError
from seatrial.images.build import Built
from seatrial.images.store import open_store
from tests.images.building.support import Builder, look_at, write_context
from tests.images.support import archive, entry, needs_root

pytestmark = needs_root

SCRIPT = """#!/bin/sh
echo "$@" >> {folder}/said
case $1 in
build) {build}
  echo building; while [ "$1" != --iidfile ]; do shift; done; echo sha256:1234 > "$2" ;;
save) cp {folder}/image.tar "$3" ;;
push) cp {folder}/image.tar "${{3#docker-archive:}}" ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Where programs are found, and an image as `docker save` writes it."""
    layer = archive([entry("hello", content=b"hi")])
    digest = hashlib.sha256(layer).hexdigest()
    config = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
    manifest = [{"Config": f"{digest}.json", "RepoTags": None, "Layers": [f"{digest}/layer.tar"]}]
    members = [
        entry(f"{digest}/layer.tar", content=layer),
        entry(f"{digest}.json", content=json.dumps(config).encode()),
        entry("manifest.json", content=json.dumps(manifest).encode()),
    ]
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "image.tar").write_bytes(archive(members))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return programs


def make_program(folder: Path, name: str, build: str = "") -> None:
    (folder / name).write_text(SCRIPT.format(folder=folder, build=build))
    (folder / name).chmod(0o755)


def build(tmp_path: Path, **options) -> tuple[Built, Builder]:
    async def play() -> tuple[Built, Builder]:
        async with open_store(tmp_path / "store") as store:
            builder = Builder(store)
            return await builder.build(write_context(tmp_path / "context", "FROM x\n"), **options), builder

    return asyncio.run(play())


@pytest.mark.parametrize("program", ["docker", "podman", "buildah"])
def test_what_another_program_builds(folder, tmp_path, program):
    make_program(folder, program)
    built, builder = build(tmp_path, builder=program, arguments={"A": "b c"}, target="stage", tags=("mine:1",))
    assert look_at(built.image)["/hello"][2] == "hi"
    assert built.image.reference == "mine:1"
    assert builder.output == "building\n"
    assert "building" in built.log.read_text()
    first = (folder / "said").read_text().splitlines()[0]
    assert first.endswith(
        f"-f {tmp_path}/context/Dockerfile --build-arg=A=b c --target=stage --network=none {tmp_path}/context"
    )


def test_a_program_that_fails(folder, tmp_path):
    make_program(folder, "docker", "echo no space >&2; exit 5;")
    with pytest.raises(BuildError, match=r"(?s)docker build` ended with exit code 5.*no space"):
        build(tmp_path, builder="docker")


def test_a_program_nobody_waits_for_is_ended_with_its_children(folder, tmp_path):
    make_program(folder, "docker", f"sleep 1000 & echo $! > {folder}/child; echo started; wait;")
    context = write_context(tmp_path / "context", "FROM x\n")

    async def play() -> None:
        async with open_store(tmp_path / "store") as store:
            builder = Builder(store)
            task = asyncio.ensure_future(builder.build(context, builder="docker"))
            await builder.heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(play())
    stat = Path(f"/proc/{(folder / 'child').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_program_that_takes_too_long(folder, tmp_path):
    make_program(folder, "docker", "sleep 1000;")
    with pytest.raises(BuildError, match=r"Dockerfile: the build was ended here after 0\.3 seconds"):
        build(tmp_path, builder="docker", timeout_sec=0.3)


def test_a_program_that_is_not_there(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(HostUnsupportedError, match="there is no podman on the PATH; install it"):
        build(tmp_path, builder="podman")


def test_no_program_is_handed_a_dockerfile_that_names_a_place_of_this_machine(folder, tmp_path):
    make_program(folder, "podman")
    context = write_context(tmp_path / "context", "FROM oci-archive:/etc/image.tar\n")

    async def play() -> None:
        async with open_store(tmp_path / "store") as store:
            await Builder(store).build(context, builder="podman")

    with pytest.raises(BuildError, match=r"'oci-archive:/etc/image\.tar' is a place of this machine"):
        asyncio.run(play())
    assert not (folder / "said").exists()
