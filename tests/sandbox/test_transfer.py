"""Files in and out, with real archives and real files: on the local backend."""

import asyncio
import io
import os
import stat
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from seatrial.errors import OversizeError, SandboxError
from seatrial.sandbox.api import ExecSpec, Network, SandboxSpec
from seatrial.sandbox.local import LocalBackend, LocalSandbox
from seatrial.sandbox.transfer import (
    get_file,
    get_tree,
    join_archives,
    new_archive,
    pack_files,
    pack_trees,
    put_file,
    put_tree,
)

pytestmark = pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")


@asynccontextmanager
async def local_sandbox(directory: Path | None = None) -> AsyncIterator[LocalSandbox]:
    async with LocalBackend(directory) as backend:
        yield await backend.create(SandboxSpec())


async def sh(sandbox: LocalSandbox, script: str) -> None:
    result = await sandbox.exec(ExecSpec(("/bin/sh", "-c", script), network=Network("host")))
    assert result.exit_code == 0, result


@pytest.mark.parametrize("path", ["/app/a/ü b.txt", "/at the top", "/app/-rf"])
def test_one_file_there_and_back(path):
    async def scenario() -> None:
        async with local_sandbox() as sandbox:
            await put_file(sandbox, path, b"\0content\xff")
            assert await get_file(sandbox, path, limit=9) == b"\0content\xff"
            with pytest.raises(SandboxError, match="limit of 8 bytes"):
                await get_file(sandbox, path, limit=8)

    asyncio.run(scenario())


def test_a_file_has_the_mode_it_was_given(tmp_path):
    async def scenario() -> None:
        async with local_sandbox(tmp_path) as sandbox:
            await put_file(sandbox, "/app/tool", b"", mode=0o751)
            await put_file(sandbox, "/app/text", b"")
            (tool,) = tmp_path.glob("*/*/app/tool")
            assert stat.S_IMODE(tool.stat().st_mode) == 0o751
            assert stat.S_IMODE(tool.with_name("text").stat().st_mode) == 0o644

    asyncio.run(scenario())


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("keep")

    async def scenario() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, f"ln -s {victim} file")
            await put_file(sandbox, "/app/file", b"new")
            assert await get_file(sandbox, "/app/file", limit=9) == b"new"

    asyncio.run(scenario())
    assert victim.read_text() == "keep"


@pytest.mark.parametrize("script", ["mkdir thing", "ln -s /etc/passwd thing", "mkfifo thing"])
def test_what_is_no_file_is_not_read_as_one(script):
    async def scenario() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, script)
            await get_file(sandbox, "/app/thing", limit=10**6)

    with pytest.raises(SandboxError, match="thing"):
        asyncio.run(scenario())


def test_a_missing_file():
    async def scenario() -> None:
        async with local_sandbox() as sandbox:
            await get_file(sandbox, "/app/none", limit=9)

    with pytest.raises(FileNotFoundError):
        asyncio.run(scenario())


def test_a_tree_there_and_back(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "empty").mkdir(parents=True)
    (source / "sub dir").mkdir()
    (source / "sub dir/ünï").write_text("text")
    (source / "tool").write_text("#!/bin/sh\necho works >made\n")
    (source / "tool").chmod(0o755)
    (source / "link").symlink_to("tool")

    async def scenario() -> None:
        async with local_sandbox() as sandbox:
            await put_tree(sandbox, "/app/tree", source)
            await sh(sandbox, "cd tree; ./link")
            await get_tree(sandbox, "/app/tree", target, limit=10**6)

    asyncio.run(scenario())
    assert (target / "empty").is_dir()
    assert (target / "sub dir/ünï").read_text() == "text"
    assert (target / "made").read_text() == "works\n"
    assert not (target / "link").is_symlink()
    assert os.access(target / "tool", os.X_OK)


def test_a_tree_may_not_be_larger_than_allowed(tmp_path):
    async def scenario() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, "head -c 5000 /dev/zero >big")
            await get_tree(sandbox, "/app", tmp_path / "target", limit=5000)

    with pytest.raises(SandboxError, match="limit of 5000 bytes"):
        asyncio.run(scenario())


def test_an_archive_has_no_name_on_any_disk():
    with new_archive() as archive:
        archive.write(b"x")
        archive.flush()
        assert "memfd" in str(Path(f"/proc/self/fd/{archive.fileno()}").readlink())


def test_more_than_fits_into_memory_is_not_packed(tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(3):
        with (tmp_path / f"data/{number}").open("wb") as file:
            file.truncate(2**40)
    with pytest.raises(OversizeError, match=r"1,024\.0 GiB or more .* data/\d included; the limit is 1 GiB"):
        pack_trees(tmp_path)


def test_a_pipe_that_is_packed_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert pack_trees(tmp_path)


def test_of_archives_that_are_joined_the_later_file_stays():
    joined = join_archives(pack_files({"a": b"old", "b": b"kept"}), pack_files({"a": b"new"}, mode=0o755))
    with tarfile.open(fileobj=io.BytesIO(joined)) as tar:
        contents = [(member.name, member.mode, tar.extractfile(member)) for member in tar]
        unpacked = {name: (mode, content.read()) for name, mode, content in contents if content}
    assert unpacked == {"a": (0o755, b"new"), "b": (0o644, b"kept")}
