"""What is kept of end states without being asked: the cheap ones, and for all others the reason why not."""

import asyncio
import io
import os
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, cast

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import ContentError, HostUnsupportedError, SandboxError, TooLargeError
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.record import KeptState
from seatrial.sandbox.api import ExecSpec, Sandbox, SandboxSpec, open_sandbox
from seatrial.sandbox.transfer import new_archive
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer
from seatrial.trial.snapshot import LARGE as LARGE_FILES_LARGE
from seatrial.trial.snapshot import (
    SnapshotBudget,
    SnapshotPolicy,
    keep_apart,
    keep_snapshot,
    keep_state,
    lay_out_snapshot,
    put_together,
    snapshot_policy,
)
from tests.sandbox.embedded.support import MODES, needs_root
from tests.trial.support import ANSWER, Desk, open_desk

LARGE = os.urandom(300_000)


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("desk"), MODES[0]) as opened:
        yield opened


async def filled(**files: bytes) -> FakeSandbox:
    sandbox = await FakeBackend(lambda *_: answer()).create(SandboxSpec())
    sandbox.files.update({f"/app/{name}": content for name, content in files.items()})
    return sandbox


def kept_from(folder: Path, policy: SnapshotPolicy, processes: tuple[str, ...] = (), **files: bytes) -> KeptState:
    async def keep() -> KeptState:
        return await keep_state(await filled(**files), folder, policy, processes)

    return asyncio.run(keep())


def test_what_is_small_is_kept_and_takes_what_the_record_says(tmp_path):
    state = kept_from(tmp_path, SnapshotPolicy("auto"), ("postgres",), answer=b"x")
    assert state == KeptState(kept=True, size=(tmp_path / "snapshot.tar.zst").stat().st_size, processes=("postgres",))


@pytest.mark.parametrize(
    ("keep", "files", "reason"),
    [
        ("record", {"a": b"x"}, "the run said --keep record"),
        ("auto", {"a": b"x" * 2**26}, "67108864 bytes are more than the limit of 33554432; --keep snapshot keeps it"),
        ("auto", {"a": os.urandom(9 * 2**20)}, "packed, it takes more than the limit of 8,388,608 bytes; --keep"),
        ("auto", {"a": b"the hidden-word is"}, "it holds the value of a variable that was given by"),
        ("auto", {"a": b"no \xfftext at all"}, "it holds the value of a variable"),
        ("auto", {"a": bytes(2**20) + b"the hidden-word is"}, "it holds the value of a variable"),
    ],
)
def test_what_is_not_kept_has_a_reason_and_leaves_nothing(tmp_path, keep, files, reason):
    state = kept_from(tmp_path, SnapshotPolicy(keep, ("hidden-word", "the", "\udcfftext at")), **files)
    assert not state.kept
    assert (state.reason or "").startswith(reason)
    assert list(tmp_path.iterdir()) == []


def test_what_task_and_agent_were_given_of_this_machine_is_secret():
    agent = AgentOptions(
        name="command", command="x", env={"KEY": "${OWN}", "B": "${OTHER:-x}", "C": "${NOT:-y}", "D": "z"}
    )
    host = {"OWN": "one", "OTHER": "two", "ALLOWED": "three", "MORE": "four"}
    assert snapshot_policy(TrialOptions(allow_env=("ALLOWED",)), agent, host) == SnapshotPolicy(
        "auto", ("three", "one", "two")
    )


def test_who_wants_it_gets_it_whatever_is_in_it(tmp_path):
    assert kept_from(tmp_path, SnapshotPolicy("snapshot", ("hidden-word",)), a=b"hidden-word").kept


@pytest.mark.parametrize("error", [SandboxError("broken"), HostUnsupportedError("cannot"), OSError(28, "full")])
def test_a_sandbox_that_fails_fails_no_trial(tmp_path, error):
    async def keep() -> KeptState:
        backend = FakeBackend(lambda *_: answer(), fail_on={"pack_layer": error})
        return await keep_state(await backend.create(SandboxSpec()), tmp_path, SnapshotPolicy("auto"), ())

    assert asyncio.run(keep()) == KeptState(kept=False, reason=str(error))


def test_large_files_lie_beside_the_archive_once_for_each_content(tmp_path):
    async def keep_and_lay_out() -> FakeSandbox:
        await keep_snapshot(await filled(one=LARGE, two=LARGE, three=LARGE[1:], small=b"x"), tmp_path)
        fresh = await filled()
        await lay_out_snapshot(fresh, tmp_path / "snapshot.tar.zst")
        return fresh

    fresh = asyncio.run(keep_and_lay_out())
    assert len(list((tmp_path / "snapshot.files").iterdir())) == 2
    contents = {"/app/one": LARGE, "/app/two": LARGE, "/app/three": LARGE[1:], "/app/small": b"x"}
    assert fresh.files == contents


def test_headers_alone_do_not_fill_the_disk_either(tmp_path, monkeypatch):
    async def keep_and_lay_out() -> None:
        await keep_snapshot(await filled(**{f"f{number}": b"" for number in range(100)}), tmp_path)
        monkeypatch.setattr("seatrial.trial.snapshot.spare_bytes", lambda _: 20_000)
        await lay_out_snapshot(await filled(), tmp_path / "snapshot.tar.zst")

    with pytest.raises(ContentError, match="there is no room for what is in it"):
        asyncio.run(keep_and_lay_out())


class Writing:
    """A sandbox that has much to pack, and something happens then."""

    def __init__(self, content: bytes, then: Callable[[], Awaitable[None]]) -> None:
        self._content = content
        self._then = then

    async def pack_layer(self, archive: BinaryIO, limit: int) -> None:
        if limit < len(self._content):
            raise TooLargeError("too large")
        archive.write(self._content)
        await self._then()


def written(size: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("large")
        member.size = size
        tar.addfile(member, io.BytesIO(bytes(size)))
    return buffer.getvalue()


def test_a_sandbox_that_fails_in_the_middle_leaves_nothing(tmp_path):
    async def break_down() -> None:
        raise SandboxError("gone")

    broken = cast("Sandbox", Writing(written(2**20)[: 2**19], break_down))
    with pytest.raises(SandboxError, match="gone"):
        asyncio.run(keep_snapshot(broken, tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_half_an_archive_is_none(tmp_path):
    async def nothing() -> None:
        return

    broken = cast("Sandbox", Writing(written(2**20)[: 2**19], nothing))
    with pytest.raises(ContentError, match="cannot be packed"):
        asyncio.run(keep_snapshot(broken, tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_whoever_is_cancelled_leaves_nothing(tmp_path):
    async def keep() -> None:
        begun = asyncio.Event()

        async def be_stuck() -> None:
            begun.set()
            await asyncio.Event().wait()

        stuck = cast("Sandbox", Writing(written(2**20), be_stuck))
        task = asyncio.ensure_future(keep_snapshot(stuck, tmp_path))
        await begun.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keep())
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_trial_keeps_its_end_state_with_what_ran_on(desk):
    ran = desk.attack(f"echo right > {ANSWER}; sleep 600 & until grep -qx sleep /proc/$!/comm; do :; done")
    assert ran.record.end_state is not None
    assert (ran.record.end_state.kept, ran.record.end_state.processes) == (True, ("sleep",))
    assert ran.record.end_state.size < 10_000


def has_attributes(folder: Path) -> bool:
    """Whether files on the file system of a folder can have attributes of their own."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            os.setxattr(file.name, "user.note", b"x")
        except OSError:
            return False
    return True


def described(archive: Path) -> dict[str, tuple[object, ...]]:
    """The files in a kept archive, as far as they are said to come back."""
    with (
        zstandard.open(archive, "rb") as packed,
        tarfile.open(fileobj=packed, mode="r|", errors="surrogateescape") as tar,
    ):
        members = [member for member in tar if member.name.startswith("app/")]
    return {
        each.name: (each.type, oct(each.mode), each.uid, each.gid, each.mtime, each.linkname, each.pax_headers)
        for each in members
    }


@needs_root
def test_attributes_owners_and_locked_files_come_back(desk, tmp_path):
    """Also those of a large file, which takes another way."""
    leave = """cd /app; echo x > a; head -c 200000 /dev/zero > b; chown 7:8 b; touch -d @1000000000 b; ln b c; ln -s a d
    chmod 000 a; mkdir -m 1777 e"""
    note = bytes([0, 255, 10, 61])

    async def keep_twice() -> frozenset[str]:
        async with open_sandbox(desk.backend, SandboxSpec()) as one, open_sandbox(desk.backend, SandboxSpec()) as two:
            await one.exec(ExecSpec(("/bin/sh", "-c", leave)))
            with new_archive() as layer:
                with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
                    member = tarfile.TarInfo("noted")
                    member.pax_headers = {"SCHILY.xattr.user.note": note.decode("utf-8", "surrogateescape")}
                    tar.addfile(member)
                layer.seek(0)
                await one.unpack_layer("/app", layer)
            await keep_snapshot(one, tmp_path / "one")
            await lay_out_snapshot(two, tmp_path / "one/snapshot.tar.zst")
            await keep_snapshot(two, tmp_path / "two")
            return frozenset(path for path in (await desk.backend.probe()).state_folders if has_attributes(path))

    able = desk.wait(keep_twice())
    first = described(tmp_path / "one/snapshot.tar.zst")
    assert first == described(tmp_path / "two/snapshot.tar.zst")
    assert {"app/a", "app/b", "app/c", "app/d", "app/e", "app/noted"} <= first.keys()
    assert first["app/b"][2:5] == (7, 8, 1000000000)
    if able:
        headers = first["app/noted"][-1]
        assert isinstance(headers, dict)
        assert headers["SCHILY.xattr.user.note"] == note.decode("utf-8", "surrogateescape")


class NoMoreThreads(ThreadPoolExecutor):
    """Takes work and has nobody for it, as on a machine that is out of processes; then somebody is free after all."""

    def submit(self, *work, **options):
        self.left = lambda: work[0](*work[1:], **options)
        raise RuntimeError("can't start new thread")


def test_without_a_thread_nothing_is_kept_and_nobody_waits_for_it(tmp_path):
    async def keep() -> tuple[KeptState, Exception | None]:
        asyncio.get_running_loop().set_default_executor(NoMoreThreads())
        executor = asyncio.get_running_loop()._default_executor  # type: ignore[attr-defined]
        state = await keep_state(await filled(large=LARGE), tmp_path, SnapshotPolicy("auto"), ())
        return state, executor.left()

    before = len(os.listdir("/proc/self/fd"))
    state, later = asyncio.run(keep())
    assert (state.kept, state.reason) == (False, "it cannot be packed: can't start new thread")
    assert str(later) == "nobody wants it any more"
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) <= before


def archive_of(**files: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.uid, member.mtime = len(content), 7, 1_000_000
            tar.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def take_apart(archive: io.BytesIO, folder: Path) -> bytes:
    packed = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(packed, closefd=False) as writer:
        keep_apart(archive, writer, folder, SnapshotBudget(2**30))
    return packed.getvalue()


def join(packed: bytes, folder: Path, left: int = 2**30) -> io.BytesIO:
    plain = io.BytesIO()
    with (
        zstandard.open(io.BytesIO(packed), "rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in source:
            put_together(member, source, target, folder, left - target.offset)
    return plain


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.tuples(st.binary(min_size=1, max_size=9), st.integers(0, 2)), min_size=1
    )
)
def test_whatever_is_taken_apart_is_put_together_again(parts):
    files = {name: content * (LARGE_FILES_LARGE * kind // len(content) + 1) for name, (content, kind) in parts.items()}
    whole = archive_of(**files)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        packed = take_apart(whole, folder)
        large = {content for content in files.values() if len(content) >= LARGE_FILES_LARGE}
        assert len(list(folder.iterdir()) if folder.exists() else []) == len(large)
        assert join(packed, folder).getvalue() == whole.getvalue()


def one_large(folder: Path) -> tuple[bytes, Path]:
    packed = take_apart(archive_of(large=bytes(LARGE_FILES_LARGE)), folder)
    (path,) = folder.iterdir()
    return packed, path


def test_another_content_is_not_taken_for_it(tmp_path):
    packed, path = one_large(tmp_path)
    path.write_bytes(zstandard.compress(b"\1" * LARGE_FILES_LARGE))
    with pytest.raises(ContentError, match="its content is another than its name says"):
        join(packed, tmp_path)


def test_more_than_there_is_room_for_is_not_unpacked(tmp_path):
    packed, _ = one_large(tmp_path)
    with pytest.raises(ContentError, match="no room"):
        join(packed, tmp_path, left=LARGE_FILES_LARGE - 1)


@pytest.mark.parametrize("named", ["../../etc/passwd", "a" * 63 + "/", "A" * 64])
def test_a_name_that_is_no_digest_leads_nowhere(tmp_path, named):
    member = tarfile.TarInfo("large")
    member.pax_headers = {"SEATRIAL.content": named, "SEATRIAL.size": "1"}
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar, pytest.raises(ContentError, match="no such content"):
        put_together(member, tar, tar, tmp_path, 2**30)
