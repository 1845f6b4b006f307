"""Which files a command opens is found out, whatever way it takes to them."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seatrial.sandbox.api import Curation, Sandbox, SandboxSpec, SystemCopy, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.protocol import Mode
from seatrial.sandbox.opens import Opened, Opens, Watched, opened, place_watches, reading_opens
from tests.sandbox.embedded.support import PYTHON, ask, in_both_modes, needs_python, needs_root, run, shell

pytestmark = needs_root

_FILES = """
mkdir -p /app/pack /srv/far; cd /app
for name in read run mapped moved linked hard copied untouched pack/__init__.py; do echo 'echo done' > $name; done
chmod 755 run; ln hard hard2; ln -s linked link; ln -s /app/pack /srv/far/pack; ln -s /usr/bin/yes shared
"""
_WAYS = {
    "read": ("cat /app/read", {"/app/read"}),
    "by a relative path": ("cd /app/pack; cat ../read", {"/app/read"}),
    "run": ("/app/run", {"/app/run"}),
    "moved first": ("mv /app/moved /tests/it; cat /tests/it", {"/app/moved"}),
    "copied": ("cp /app/copied /tests/it", {"/app/copied"}),
    "by a link": ("cat /app/link", {"/app/linked", "/app/link"}),
    "by a link to a file of the image": ("cat /app/shared", {"/app/shared"}),
    "by either name": ("cat /app/hard2", {"/app/hard", "/app/hard2"}),
    "by a link to a folder": (
        "cat /srv/far/pack/__init__.py",
        {"/app/pack/__init__.py", "/srv/far/pack", "/srv/far/pack/__init__.py"},
    ),
    "by another user": ("su nobody -s /bin/sh -c 'cat /app/read'", {"/app/read"}),
    "from another root": ("cat /proc/self/root/app/read", {"/app/read"}),
    "written": ("echo more >> /app/read", {"/app/read"}),
    "only looked at": ("ls -l /app; stat /app/read; test -e /app/run", set()),
}


async def _watch(sandbox: Sandbox, script: str, watched: Watched | None = None) -> Opened:
    watched = watched or Watched((await sandbox.changes()).added)
    result = await sandbox.exec(shell(script, phase="verifier", watched=watched))
    assert result.exit_code == 0, result
    assert result.opened is not None
    return result.opened


@in_both_modes
def test_whatever_way_a_file_is_opened_that_is_seen(mode: Mode) -> None:
    async def work(backend: EmbeddedBackend) -> None:
        for way, (script, expected) in _WAYS.items():
            async with open_sandbox(backend, SandboxSpec()) as sandbox:
                await ask(sandbox, shell(_FILES))
                opened = await _watch(sandbox, script)
            assert opened.complete
            assert opened.files == expected, way
            links = {"/app/link": "/app/linked", "/srv/far/pack": "/app/pack", "/app/shared": "/usr/bin/yes"}
            assert opened.links == links

    run(work, mode)


@needs_python
def test_what_is_mapped_and_what_a_module_is_made_of_is_seen() -> None:
    async def work(backend: EmbeddedBackend) -> None:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell("mkdir -p /app; cd /app; echo 'X = 1' > own.py; echo text > mapped"))
            code = "import mmap, own; f = open('mapped'); mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
            watched = Watched(("/app/own.py", "/app/mapped"), ("/app/__pycache__",))
            first = await _watch(sandbox, f'cd /app; {PYTHON} -c "{code}"', watched)
            second = await _watch(sandbox, f'cd /app; {PYTHON} -c "{code}"', watched)
        assert first.files == {"/app/own.py", "/app/mapped"}
        compiled = second.files - {"/app/mapped"}
        assert {path.rpartition("/")[0] for path in compiled} == {"/app/__pycache__"}, "the source is not read again"

    run(work, "root")


@in_both_modes
def test_files_are_watched_as_a_verifier_with_a_system_of_its_own_sees_them(mode: Mode) -> None:
    async def hide(_: SystemCopy) -> Curation:
        return Curation(hidden=frozenset({"/app/hidden", "/app/deep/hidden"}), rewritten={"/app/deep/old": "image"})

    async def work(backend: EmbeddedBackend) -> None:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(
                sandbox, shell("mkdir -p /app/deep; cd /app; touch hidden deep/hidden deep/kept; echo 1 > deep/old")
            )
            watched = Watched((await sandbox.changes()).added)
            await sandbox.renew_verifier(hide)
            spec = shell("cd /app; ls . deep; cat deep/old deep/kept", phase="verifier", watched=watched)
            result = await sandbox.exec(spec)
        assert result.opened
        assert result.opened.files == {"/app/deep/kept", "/app/deep/old"}
        assert result.stdout.decode().split() == [".:", "deep", "deep:", "kept", "old", "image"]

    run(work, mode)


@pytest.mark.whole
def test_of_thousands_of_files_those_that_are_opened_are_seen() -> None:
    async def work(backend: EmbeddedBackend) -> None:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(
                sandbox, shell("mkdir -p /app/many /app/few; cd /app; touch few/1; cd many; seq 9000 | xargs touch")
            )
            opened = await _watch(sandbox, "cat /app/many/17 /app/few/1")
            everything = await _watch(sandbox, "cat /app/many/* /app/many/*")
        assert opened.complete
        assert opened.files == {"/app/many/17", "/app/few/1"}
        assert len(everything.files) == 9000 or not everything.complete

    run(work, "root")


def test_what_is_put_into_a_watched_folder_later_is_seen() -> None:
    async def work(backend: EmbeddedBackend) -> None:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell("mkdir -p /app"))
            opened = await _watch(sandbox, "echo 1 > /app/late; cat /app/late; rm /app/late", Watched((), ("/app",)))
        assert opened.files == {"/app/late"}

    run(work, "root")


def test_an_agent_reads_its_own_files_without_being_watched() -> None:
    async def work(backend: EmbeddedBackend) -> None:
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            result = await sandbox.exec(shell("echo 1 > /app/x; cat /app/x"))
        assert result.opened is None

    run(work, "root")


@contextmanager
def _opens(watched: Watched) -> Iterator[Opens]:
    opens = Opens(watched)
    try:
        yield opens
    finally:
        opens.close()


def test_more_events_than_the_kernel_keeps_are_not_taken_for_all(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for name in ("a", "b"):
        (tmp_path / name).touch()
    with _opens(Watched((), (str(tmp_path),))) as opens:
        place_watches(*opens.descriptors)
        for number in range(limit + 10):  # by turns: two of the same are one event
            os.close(os.open(tmp_path / "ab"[number % 2], os.O_RDONLY))
        found = opens.finish()
    assert found is not None
    assert not found.complete


def test_without_watches_nothing_is_known() -> None:
    with _opens(Watched(("/app/x",))) as opens:
        assert opens.finish() is None


def test_below_a_root_no_link_leads_out_of_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "app").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").touch()
    (root / "app/inner").touch()
    (root / "app/out").symlink_to(outside)
    (root / "app/by").symlink_to("/proc/self/root/app/inner")
    descriptor = os.open(root, os.O_PATH)
    with _opens(Watched(("/app/out/file", "/app/inner", "/app/by"))) as opens:
        place_watches(*opens.descriptors, descriptor)
        (outside / "file").read_bytes()
        (root / "app/inner").read_bytes()
        found = opens.finish()
    os.close(descriptor)
    assert found == Opened(frozenset({"/app/inner"}), {"/app/by": "/app/inner"}, complete=True)


def test_for_a_user_without_instances_left_anything_may_have_been_opened() -> None:
    loop, before = asyncio.new_event_loop(), resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.open("/", os.O_PATH)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, before[1]))
    try:
        watched = Watched(("/app/x",))
        with reading_opens(watched, loop) as opens:
            assert opened(watched, opens) == Opened(frozenset(), {}, complete=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(taken)
        loop.close()


def test_names_that_are_no_text_are_seen_by_their_folder(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/odd\xff"
    Path(os.fsdecode(odd)).touch()
    shown = odd.decode("utf-8", "backslashreplace")
    with _opens(Watched((shown,))) as opens:
        place_watches(*opens.descriptors)
        os.close(os.open(odd, os.O_RDONLY))
        found = opens.finish()
    assert found is not None
    assert found.files == {shown}
