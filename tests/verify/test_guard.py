"""Putting files back as an image has them, from layers of this machine."""

import asyncio
import io
import tarfile
from pathlib import Path

import pytest

from seatrial.sandbox.api import HOST_IMAGE, Image, SandboxSpec
from seatrial.sandbox.session import open_sandbox, run_shell
from seatrial.sandbox.transfer import put_file
from seatrial.verify.guard import lay_out, restore, save
from seatrial.verify.originals import LocalOriginals
from tests.sandbox.embedded.support import needs_root, run


@pytest.fixture
def image(tmp_path: Path) -> Image:
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


def test_a_file_gets_the_content_of_the_topmost_layer_that_has_it(image):
    recorder = restored(image, "/usr/bin/grep", "/usr/bin/sort", "/usr/bin/sh")
    assert recorder.members["/usr/bin/grep"][1] == b"new"
    assert recorder.members["/usr/bin/sort"][1] == b"sort"
    assert recorder.members["/usr/bin/sort"][0].mode == 0o755
    assert recorder.members["/usr/bin/sh"][0].linkname == "dash"
    assert recorder.removed == []


def test_what_the_image_does_not_have_is_removed(image):
    recorder = restored(image, "/conftest.py", "/usr/bin/python3")
    assert recorder.removed == ["/conftest.py", "/usr/bin/python3"]
    assert {member.linkname for member, _ in recorder.members.values()} == {"/proc/removed"}


def test_a_folder_comes_back_with_all_that_is_in_it(image):
    recorder = restored(image, "/usr/local/bin")
    assert recorder.members["/usr/local/bin"][0].isdir()
    assert set(recorder.members) == {
        "/usr/local/bin", "/usr/local/bin/tool", "/usr/local/bin/more", "/usr/local/bin/more/deep"
    }  # fmt: skip


def test_no_link_of_a_layer_leads_to_this_machine(tmp_path):
    (tmp_path / "etc").symlink_to("/etc")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/passwd").symlink_to("/etc/passwd")
    image = Image("a stranger's", layers=(tmp_path,))
    recorder = restored(image, "/etc/passwd", "/usr/passwd")
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
