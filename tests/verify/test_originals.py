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
from seatrial.sandbox.api import ExecResult, ExecSpec, Image, Sandbox, SandboxBackend, SandboxSpec
from seatrial.sandbox.session import open_sandbox, run_shell
from seatrial.verify.guard import restore
from seatrial.verify.originals import LocalOriginals, Originals, RemoteOriginals, open_originals
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
