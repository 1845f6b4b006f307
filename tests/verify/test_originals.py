"""What an image has: a fresh sandbox says the same as the layers on this machine, and is made only to be asked."""

import asyncio
import io
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import (
    HOST_IMAGE,
    ExecResult,
    ExecSpec,
    Image,
    Sandbox,
    SandboxBackend,
    SandboxSpec,
    open_sandbox,
    run_shell,
)
from seatrial.sandbox.transfer import put_file
from seatrial.verify.originals import LocalOriginals, Originals, RemoteOriginals, lay_out, open_originals, restore, save
from tests.sandbox.embedded.support import needs_root, run

pytestmark = needs_root

ODD, CODED = "/usr/local/bin/it's a\nname", r"/usr/local/bin/coded\n"
FILES = ("/usr/local/bin/tool", "/usr/local/bin/link", "/usr/bin/env", "/usr/bin/sh", ODD, CODED)
NOTHING = ("/conftest.py", "/usr/local/bin/env", "/no/such", "/usr/bin/env/x")

T = TypeVar("T")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """A few programs of its own on top of this machine's."""
    programs = tmp_path / "layer/usr/local/bin"
    programs.mkdir(parents=True)
    for path in ("/usr/local/bin/tool", ODD, CODED):
        (tmp_path / "layer" / path[1:]).write_text(f"#!/bin/sh\necho {len(path)}\n")
        (tmp_path / "layer" / path[1:]).chmod(0o4755)
    (programs / "twin").hardlink_to(programs / "tool")
    (programs / "link").symlink_to("tool")
    (programs / "folder").mkdir()
    (programs / "folder/deep").write_text("deep")
    return Image("layer", layers=(tmp_path / "layer",), base="host")


class WithoutTar:
    """A sandbox whose image has no tar."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def exec(self, spec: ExecSpec) -> ExecResult:
        return ExecResult(127, 0.0) if b"tar" in spec.stdin else await self._sandbox.exec(spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)


class OnlyTar(WithoutTar):
    """A sandbox whose image has one, and that takes long for anything else."""

    async def exec(self, spec: ExecSpec) -> ExecResult:
        return await self._sandbox.exec(spec)

    async def get(self, path: str, _: object) -> None:
        raise AssertionError(path)


@dataclass
class Counting:
    """A backend that remembers what it has been asked for."""

    backend: SandboxBackend
    wrap: Callable[[Sandbox], Any] = lambda sandbox: sandbox
    made: list[SandboxSpec] = field(default_factory=list)

    async def create(self, spec: SandboxSpec) -> Any:
        self.made.append(spec)
        return self.wrap(await self.backend.create(spec))


def locally(image: Image, question: Callable[[Originals], Awaitable[T]]) -> T:
    """Look at the layers."""

    async def play() -> T:
        return await question(LocalOriginals(image))

    return asyncio.run(play())


def ask(
    image: Image,
    question: Callable[[Originals], Awaitable[T]],
    wrap: Callable[[Sandbox], Any] = lambda sandbox: sandbox,
) -> T:
    """Ask a fresh sandbox of an image, although its layers are at hand."""

    async def play(backend: SandboxBackend) -> T:
        async with AsyncExitStack() as stack:
            counting = Counting(backend, wrap)
            answer = await question(RemoteOriginals(counting, image, stack))  # type: ignore[arg-type]
            assert len(counting.made) == 1
            return answer

    return run(play, "userns")


def packed(archive: bytes) -> dict[str, tuple[bytes, str, int, bytes]]:
    """What an archive has under each name; a later member replaces an earlier one."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name: (
                member.type,
                member.linkname,
                member.mode & 0o7777 if member.isreg() else 0,
                _content(tar, member),
            )
            for member in tar
        }


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(member) if member.isreg() else None
    return content.read() if content else b""


def pack(*paths: str) -> Callable[[Originals], Awaitable[dict[str, Any]]]:
    async def question(originals: Originals) -> dict[str, Any]:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            await originals.pack(await originals.kinds(paths), tar)
        return packed(archive.getvalue())

    return question


def test_a_sandbox_finds_what_the_layers_have(image):
    paths = (*FILES, *NOTHING, "/usr/local/bin", "/usr/lib")

    async def kinds(originals: Originals) -> dict[str, str]:
        return dict(await originals.kinds(paths))

    expected = dict.fromkeys(FILES, "file") | {"/usr/local/bin": "folder", "/usr/lib": "folder"}
    assert ask(image, kinds) == locally(image, kinds) == expected


@pytest.mark.parametrize("wrap", [OnlyTar, WithoutTar])
def test_a_sandbox_gives_what_the_layers_have(image, wrap):
    question = pack("/usr/local/bin/tool", "/usr/local/bin/link", "/usr/local/bin/twin", "/usr/bin/env", ODD)
    found = ask(image, question, wrap)
    assert found == locally(image, question)
    assert found[ODD[1:]][3] == b"#!/bin/sh\necho %d\n" % len(ODD)


def test_names_that_tar_takes_for_others_are_had_all_the_same(image):
    question = pack("/usr/local/bin/tool", CODED)
    assert ask(image, question) == locally(image, question)


def test_a_folder_comes_with_all_that_is_in_it(image):
    found = ask(image, pack("/usr/local/bin"))
    ours = {f"usr/local/bin/{name}" for name in ("tool", "twin", "link", "coded\\n", "folder", "folder/deep")}
    assert set(found) >= ours | {"usr/local/bin"}
    assert found["usr/local/bin/twin"][3] == b"#!/bin/sh\necho 19\n"


def test_names_and_texts_are_those_of_the_layers(image):
    async def look(originals: Originals) -> tuple[frozenset[str], Mapping[str, str]]:
        names = await originals.names(["/usr/local/bin", "/no/such"])
        return names["/usr/local/bin"] - {ODD.rpartition("/")[2]}, await originals.texts(
            ["/usr/local/bin/folder/deep", "/usr/local/bin/folder", "/no/such"]
        )

    names, texts = locally(image, look)
    assert names >= {"tool", "twin", "link", "folder"}
    assert texts == {"/usr/local/bin/folder/deep": "deep"}
    asked = ask(image, look)
    assert asked[1] == texts
    assert asked[0] >= names


def test_an_image_whose_shell_fails_is_not_taken_for_an_empty_one(image):
    class Shellless(WithoutTar):
        async def exec(self, _: ExecSpec) -> ExecResult:
            return ExecResult(127, 0.0, stderr=b"no such file")

    with pytest.raises(SandboxError, match=r"layer: its /bin/sh cannot be asked .* no such file"):
        ask(image, lambda originals: originals.kinds(["/bin/sh"]), Shellless)


def test_no_sandbox_is_made_before_there_is_something_to_ask():
    class Refusing:
        async def create(self, _: SandboxSpec) -> Sandbox:
            raise AssertionError("nobody has asked yet")

    async def play() -> None:
        async with open_originals(Refusing(), Image("daemon's")) as originals:  # type: ignore[arg-type]
            assert await originals.kinds([]) == {}
            assert await originals.texts([]) == {}

    asyncio.run(play())


def test_what_is_put_back_from_a_fresh_sandbox_is_that_of_the_image(image):
    async def play(backend: SandboxBackend) -> str:
        async with open_sandbox(backend, SandboxSpec(image=image)) as sandbox, AsyncExitStack() as stack:
            await run_shell(
                sandbox, "echo evil > /usr/local/bin/tool; echo evil > /usr/local/bin/env; touch /conftest.py"
            )
            originals = RemoteOriginals(backend, image, stack)
            paths = ["/conftest.py", "/usr/local/bin/env", "/usr/bin/env", "/usr/local/bin/tool"]
            await restore(sandbox, originals, paths, {})
            script = "tool; ls /usr/local/bin/env; env true && echo works; ls /conftest.py"
            return (await run_shell(sandbox, script)).stdout.decode()

    assert run(play, "userns") == "19\nworks\n"


@pytest.fixture
def layered(tmp_path: Path) -> Image:
    """Two layers: the upper one replaces grep, and has removed env by what is no file."""
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for folder in (lower / "usr/bin", upper / "usr/bin", lower / "usr/local/bin"):
        folder.mkdir(parents=True)
    for name, content in {"grep": "old", "env": "env", "sort": "sort"}.items():
        (lower / "usr/bin" / name).write_text(content)
        (lower / "usr/bin" / name).chmod(0o755)
    (upper / "usr/bin/grep").write_text("new")
    (upper / "usr/bin/env").mkdir()
    (upper / "usr/local/bin").mkdir(parents=True)
    (upper / "usr/local/bin/more").mkdir()
    (upper / "usr/local/bin/more/deep").write_text("deep")
    (upper / "usr/bin/sh").symlink_to("dash")
    (lower / "usr/local/bin/tool").write_text("tool")
    return Image("two layers", layers=(lower, upper))


class Recorder:
    """Takes what is put and run, as a sandbox would."""

    def __init__(self) -> None:
        self.members: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
        self.removed: list[str] = []

    async def put(self, _: str, archive: io.BufferedRandom, **__: object) -> None:
        with tarfile.open(fileobj=archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                self.members[f"/{member.name}"] = (member, content.read() if content else b"")

    async def exec(self, spec) -> None:
        self.removed = [name.decode() for name in spec.stdin.split(b"\0") if name]


def restored(image: Image, *paths: str) -> Recorder:
    recorder = Recorder()
    asyncio.run(restore(recorder, LocalOriginals(image), paths, {}))  # type: ignore[arg-type]
    return recorder


def test_a_file_gets_the_content_of_the_topmost_layer_that_has_it(layered):
    recorder = restored(layered, "/usr/bin/grep", "/usr/bin/sort", "/usr/bin/sh")
    assert recorder.members["/usr/bin/grep"][1] == b"new"
    assert recorder.members["/usr/bin/sort"][1] == b"sort"
    assert recorder.members["/usr/bin/sort"][0].mode == 0o755
    assert recorder.members["/usr/bin/sh"][0].linkname == "dash"
    assert recorder.removed == []


def test_what_the_image_does_not_have_is_removed(layered):
    recorder = restored(layered, "/conftest.py", "/usr/bin/python3")
    assert recorder.removed == ["/conftest.py", "/usr/bin/python3"]
    assert {member.linkname for member, _ in recorder.members.values()} == {"/proc/removed"}


def test_a_folder_comes_back_with_all_that_is_in_it(layered):
    recorder = restored(layered, "/usr/local/bin")
    assert recorder.members["/usr/local/bin"][0].isdir()
    assert set(recorder.members) == {
        "/usr/local/bin", "/usr/local/bin/tool", "/usr/local/bin/more", "/usr/local/bin/more/deep"
    }  # fmt: skip


def test_no_link_of_a_layer_leads_to_this_machine(tmp_path):
    (tmp_path / "etc").symlink_to("/etc")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/passwd").symlink_to("/etc/passwd")
    layered = Image("a stranger's", layers=(tmp_path,))
    recorder = restored(layered, "/etc/passwd", "/usr/passwd")
    assert recorder.removed == ["/etc/passwd"]
    assert recorder.members["/usr/passwd"][0].linkname == "/etc/passwd"
    assert b"root" not in b"".join(content for _, content in recorder.members.values())


@pytest.mark.parametrize("path", ["/etc/shadow", "/root/.ssh/id_rsa", "/home/x", "/var/lib/x", "/conftest.py"])
def test_nothing_private_of_this_machine_is_taken_for_the_host_image(path):
    assert restored(HOST_IMAGE, path).removed == [path]


@needs_root
def test_in_a_sandbox_odd_names_are_removed_and_links_not_followed():
    async def play(backend) -> bytes:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await put_file(sandbox, "/app/a 'b'\n-rf/pytest.py", b"x")
            await put_file(sandbox, "/app/victim", b"kept")
            await run_shell(sandbox, "ln -s /app/victim /conftest.py; ln -s /app /pytest.ini")
            await restore(
                sandbox, LocalOriginals(HOST_IMAGE), ("/app/a 'b'\n-rf/pytest.py", "/conftest.py", "/pytest.ini"), {}
            )
            result = await run_shell(sandbox, "find /app /conftest.py /pytest.ini -not -type d; cat /app/victim")
            return result.stdout

    assert run(play, "userns") == b"/app/victim\nkept"


@needs_root
def test_what_was_saved_is_laid_out_as_it_was():
    async def play(backend) -> bytes:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await run_shell(
                sandbox, "echo mine > /usr/bin/env; rm /usr/bin/cmp; ln -s /app /usr/bin/mine; echo x > /new"
            )
            paths = ["/usr/bin/env", "/usr/bin/cmp", "/usr/bin/mine", "/new"]
            saved = await save(sandbox, paths)
            assert saved is not None
            await restore(sandbox, LocalOriginals(HOST_IMAGE), paths, {"/usr/bin/rewritten": "text"})
            look = "cat /new /usr/bin/rewritten; readlink /usr/bin/mine; ls /usr/bin/cmp; head -c 4 /usr/bin/env"
            between = (await run_shell(sandbox, look)).stdout
            assert between == b"text/usr/bin/cmp\n\x7fELF"
            await lay_out(sandbox, saved)
            return (await run_shell(sandbox, look)).stdout

    assert run(play, "userns") == b"x\ntext/app\nmine"


def test_more_than_a_few_files_are_not_saved():
    assert asyncio.run(save(Recorder(), [f"/usr/{number}" for number in range(1000)])) is None  # type: ignore[arg-type]
