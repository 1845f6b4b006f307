"""Digests of what is in a container, and what two of them differ in."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import SandboxError, TooLargeError
from seatrial.sandbox.api import open_sandbox
from seatrial.sandbox.engine import changes
from seatrial.sandbox.engine.changes import FileManifest, _digest_all, _Stream, compare, read_manifest
from tests.docker_daemon import needs
from tests.sandbox.engine.support import SPEC, run, sh

FACTS: dict[str, object] = {"mode": 0o755, "uid": 7, "gid": 7}


def archive(*members: tuple[str, bytes, dict[str, object]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content, facts in members:
            info = tarfile.TarInfo(name)
            for key, value in facts.items():
                setattr(info, key, value)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def digests(packed: bytes, sizes: Sequence[int] = (), limit: int = 2**30) -> dict[str, bytes]:
    """What is made of an archive that comes in pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        rest = packed
        for size in sizes:
            yield rest[:size]
            rest = rest[size:]
        yield rest

    async def work() -> dict[str, bytes]:
        stream = _Stream()
        reading = asyncio.ensure_future(asyncio.to_thread(_digest_all, stream, "/usr"))
        try:
            await stream.fill(pieces(), limit)
        finally:
            await asyncio.wait([reading])
        return reading.result()

    return asyncio.run(work())


def test_everything_that_can_be_noticed_of_a_file_is_in_its_digest():
    (first,) = digests(archive(("lib/x", b"content", {}))).values()
    others: list[tuple[str, bytes, dict[str, object]]] = [
        ("lib/x", b"CONTENT", {}),
        *(("lib/x", b"content", {name: value}) for name, value in FACTS.items()),
        ("lib/x", b"", {"type": tarfile.SYMTYPE, "linkname": "y"}),
        ("lib/x", b"content", {"pax_headers": {"SCHILY.xattr.security.capability": "x"}}),
    ]
    found = [digests(archive(other))["/usr/lib/x"] for other in others]
    assert len({first, *found}) == len(others) + 1
    assert digests(archive(("lib/x", b"content", {"mtime": 5})))["/usr/lib/x"] == first


def test_a_second_name_of_a_file_has_what_is_behind_it():
    linked = archive(("a", b"x", {}), ("b", b"", {"type": tarfile.LNKTYPE, "linkname": "a"}))
    assert digests(linked) == digests(archive(("a", b"x", {}), ("b", b"x", {})))


@given(st.lists(st.integers(1, 3000), max_size=20))
def test_in_whatever_pieces_it_comes(sizes):
    packed = archive(*((f"f{number}", bytes(number * 300), {}) for number in range(5)))
    assert digests(packed, sizes) == digests(packed)


@given(st.binary(max_size=3000))
def test_an_archive_that_is_none_is_refused_or_has_nothing_to_say(content):
    try:
        digests(content)
    except SandboxError as error:
        assert "cannot be read" in str(error)


def test_more_than_is_allowed_is_refused_though_nobody_is_left_waiting(monkeypatch):
    monkeypatch.setattr(changes, "_BATCH", 1000)
    with pytest.raises(TooLargeError, match="more to compare"):
        digests(archive(("x", bytes(100_000), {})), [1000] * 90, limit=50_000)


def test_what_two_manifests_differ_in():
    before = FileManifest({"/a": b"1", "/b": b"1", "/c": b"1"})
    now = FileManifest({"/a": b"1", "/b": b"2", "/d": b"1"})
    assert compare(before, now) == {"/b": "modified", "/c": "removed", "/d": "added"}


@needs("docker")
def test_a_container_that_runs():
    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(
                sandbox, "mkdir -p /opt/d; echo x >/opt/d/file; ln -s d /opt/link; mkfifo /opt/pipe; ln -s opt /way"
            )
            client, name = backend.client, f"seatrial-{backend.run_name}-1"
            first = await read_manifest(client, name, ["/opt", "/way", "/nothing"], 10**6)
            await sh(sandbox, "chown 5 /opt/d/file; ln -snf / /way")
            second = await read_manifest(client, name, ["/opt", "/way", "/opt/d/file"], 10**6)
            return first, second

    first, second = run(work)
    assert set(first.digests) == {"/opt/d/file", "/opt/link", "/opt/pipe", "/way"}
    assert compare(first, second) == {"/opt/d/file": "modified", "/way": "modified"}
