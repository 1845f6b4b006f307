"""Fakes behave: they answer as told, refuse as a sandbox would, and are loud about what nobody told them."""

import asyncio
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, LimitSpec
from seatrial.sandbox.api import Capabilities, ExecResult, ExecSpec, SandboxBackend, SandboxSpec
from seatrial.sandbox.transfer import get_file, get_tree, new_archive, put_file, put_tree
from seatrial.testing.fake import FakeBackend, FakeSandbox, UnknownCommandError, answer, command_line

T = TypeVar("T")

FILES: Mapping[str, bytes] = {"/etc/config": b"old", "/etc/other": b"same", "/etc/gone": b"bye"}


def in_sandbox(backend: FakeBackend, use: Callable[[FakeSandbox], Awaitable[T]], spec: SandboxSpec | None = None) -> T:
    async def scenario() -> T:
        async with backend:
            return await use(await backend.create(spec or SandboxSpec()))

    return asyncio.run(scenario())


def test_commands_from_a_mapping():
    def count(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        return answer(str(len(sandbox.executed)))

    backend = FakeBackend({"ls -l": answer("list"), "count": count, "a | b": answer(exit_code=3, stderr="no")})

    async def use(sandbox: FakeSandbox) -> None:
        assert (await sandbox.exec(ExecSpec(("ls", "-l")))).stdout == b"list"
        assert (await sandbox.exec(ExecSpec(("count",)))).stdout == b"2"
        failed = await sandbox.exec(ExecSpec(("/bin/sh", "-c", "a | b")))
        assert (failed.exit_code, failed.stderr) == (3, b"no")

    in_sandbox(backend, use)
    assert [command_line(spec) for spec in backend.sandboxes[0].executed] == ["ls -l", "count", "a | b"]


def test_one_handler_for_all_may_act_on_the_files():
    def work(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        sandbox.files["/app/result"] = spec.stdin.upper()
        return answer()

    async def use(sandbox: FakeSandbox) -> bytes:
        await sandbox.exec(ExecSpec(("agent",), stdin=b"done"))
        return await get_file(sandbox, "/app/result", limit=9)

    assert in_sandbox(FakeBackend(work), use) == b"DONE"


def test_an_unknown_command_is_no_ordinary_failure():
    with pytest.raises(UnknownCommandError, match="rm -rf /"):
        in_sandbox(FakeBackend({"ls": answer()}), lambda sandbox: sandbox.exec(ExecSpec(("rm", "-rf", "/"))))


def test_an_answer_that_takes_too_long_times_out():
    async def never(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        await asyncio.Event().wait()
        return answer()

    result = in_sandbox(FakeBackend(never), lambda sandbox: sandbox.exec(ExecSpec(("x",), timeout_sec=0.01)))
    assert result.timed_out


def test_a_time_out_of_the_handler_is_its_own():
    async def fail(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        raise TimeoutError("of the test")

    with pytest.raises(TimeoutError, match="of the test"):
        in_sandbox(FakeBackend(fail), lambda sandbox: sandbox.exec(ExecSpec(("x",), timeout_sec=100)))


def test_output_is_capped_and_goes_where_it_was_asked_for(tmp_path):
    backend = FakeBackend({"say": answer("12345", stderr="err")})
    spec = ExecSpec(("say",), max_output=4, stdout_path=tmp_path / "out")
    result = in_sandbox(backend, lambda sandbox: sandbox.exec(spec))
    assert (result.stdout, result.stderr, result.truncated) == (b"", b"err", True)
    assert (tmp_path / "out").read_bytes() == b"1234"


def test_files_go_in_and_out(tmp_path):
    (tmp_path / "source/sub").mkdir(parents=True)
    (tmp_path / "source/sub/f").write_text("x")

    async def use(sandbox: FakeSandbox) -> None:
        await put_tree(sandbox, "/app", tmp_path / "source")
        await put_file(sandbox, "/app/sub/g", b"y")
        await get_tree(sandbox, "/app", tmp_path / "target", limit=10)
        with pytest.raises(FileNotFoundError):
            await get_file(sandbox, "/app/none", limit=1)
        with pytest.raises(SandboxError, match="limit of 0 bytes"):
            await get_file(sandbox, "/app/sub/f", limit=0)

    backend = FakeBackend({})
    in_sandbox(backend, use)
    assert backend.sandboxes[0].files == {"/app/sub/f": b"x", "/app/sub/g": b"y"}
    assert (tmp_path / "target/sub/g").read_text() == "y"


@pytest.mark.parametrize(
    ("name", "kind"), [("/x", b"0"), ("../x", b"0"), ("x", tarfile.SYMTYPE), ("x", tarfile.CHRTYPE)]
)
def test_what_a_fake_cannot_hold_is_refused(name, kind):
    async def use(sandbox: FakeSandbox) -> None:
        with new_archive() as archive:
            with tarfile.open(fileobj=archive, mode="w") as tar:
                info = tarfile.TarInfo(name)
                info.type = kind
                tar.addfile(info)
            archive.seek(0)
            await sandbox.put("/app", archive)

    with pytest.raises(SandboxError, match=name):
        in_sandbox(FakeBackend({}), use)


def test_changes_are_against_the_initial_files(tmp_path):
    async def use(sandbox: FakeSandbox) -> FileChanges:
        sandbox.files |= {"/etc/config": b"new", "/app/b": b"", "/app/a": b"12"}
        del sandbox.files["/etc/gone"]
        assert (await sandbox.usage()).disk_bytes == 9
        await sandbox.snapshot(tmp_path / "layer")
        return await sandbox.changes()

    expected = FileChanges(added=("/app/a", "/app/b"), modified=("/etc/config",), removed=("/etc/gone",))
    assert in_sandbox(FakeBackend({}, files=FILES), use) == expected
    assert (tmp_path / "layer/app/a").read_bytes() == b"12"


def test_a_listener_can_be_reached_by_the_handler():
    async def call(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        reader, writer = await asyncio.open_connection("127.0.0.1", sandbox.ports[8080])
        greeting = await reader.read()
        writer.close()
        return answer(greeting.decode())

    async def use(sandbox: FakeSandbox) -> ExecResult:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            writer.close()

        listener = await sandbox.listen(8080)
        with pytest.raises(SandboxError, match="8080"):
            await sandbox.listen(8080)
        async with await asyncio.start_server(greet, sock=listener):
            return await sandbox.exec(ExecSpec(("call",)))

    assert in_sandbox(FakeBackend(call), use).stdout == b"hello"


USES: Mapping[str, Callable[[FakeSandbox], Awaitable[object]]] = {
    "exec": lambda sandbox: sandbox.exec(ExecSpec(("ls",))),
    "put": lambda sandbox: put_file(sandbox, "/f", b""),
    "get": lambda sandbox: get_file(sandbox, "/etc/config", limit=9),
    "listen": lambda sandbox: sandbox.listen(1),
    "kill_all": lambda sandbox: sandbox.kill_all(),
    "changes": lambda sandbox: sandbox.changes(),
    "snapshot": lambda sandbox: sandbox.snapshot(Path("unused")),
    "usage": lambda sandbox: sandbox.usage(),
}


@pytest.mark.parametrize("method", USES)
def test_each_method_can_be_told_to_fail(method):
    backend = FakeBackend({"ls": answer()}, files=FILES, fail_on={method: SandboxError("as told")})
    with pytest.raises(SandboxError, match="as told"):
        in_sandbox(backend, USES[method])


@pytest.mark.parametrize("method", USES)
def test_nothing_works_after_destroy(method):
    async def use(sandbox: FakeSandbox) -> None:
        await sandbox.destroy()
        await sandbox.destroy()
        await USES[method](sandbox)

    with pytest.raises(SandboxError, match="destroyed"):
        in_sandbox(FakeBackend({"ls": answer()}, files=FILES), use)


def test_the_journal_tells_the_order():
    async def use(sandbox: FakeSandbox) -> None:
        await put_file(sandbox, "/app/f", b"")
        await sandbox.exec(ExecSpec(("ls",)))
        await sandbox.kill_all("verifier")

    backend = FakeBackend({"ls": answer()})
    in_sandbox(backend, use)
    assert backend.sandboxes[0].journal == ["put /app", "exec ls", "kill_all verifier", "destroy"]


def test_limits_follow_the_capabilities():
    weak: SandboxBackend = FakeBackend(
        {}, capabilities=Capabilities("fake", "none", "weak", limits=frozenset({"pids"}))
    )
    limits = LimitSpec(pids=5, memory_mb=6)

    async def enforced() -> LimitSpec:
        assert (await weak.probe()).mode == "weak"
        with pytest.raises(HostUnsupportedError, match="memory_mb"):
            await weak.create(SandboxSpec(limits=limits))
        return (await weak.create(SandboxSpec(limits=limits, enforcement="partial"))).limits_enforced

    assert asyncio.run(enforced()) == LimitSpec(pids=5)
