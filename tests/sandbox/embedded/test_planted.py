"""What an agent leaves for us to stumble over: links, odd files, odd trees. None leads out, none stops us."""

import asyncio
import io
import os
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, Phase, SandboxSpec, open_sandbox
from seatrial.sandbox.transfer import get_file, new_archive, put_file
from tests.conftest import sampled
from tests.sandbox.embedded.attacks import STOPPER
from tests.sandbox.embedded.support import (
    ask,
    children,
    in_both_modes,
    needs_python,
    needs_root,
    python,
    run,
    shell,
    wait_until,
)

pytestmark = [needs_root, needs_python, in_both_modes]

DESCRIPTORS = range(3, 40)  # what the spawner has open while it has two sandboxes, and some more
NESTED = """
import os
for _ in range(5000):
    os.mkdir("d")
    os.chdir("d")
"""


@pytest.mark.parametrize("phase", sampled(["agent", "verifier"]))
def test_a_working_directory_that_links_to_our_own_descriptors(mode, phase: Phase):
    """Whoever starts a command still has the spawner's files open: a link into /proc/self/fd must not reach them."""

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as victim, open_sandbox(backend, SandboxSpec()) as sandbox:
            await put_file(victim, "/app/secret", b"of the victim")
            reached = []
            for number in DESCRIPTORS:
                await sandbox.exec(shell(f"rm -rf /app; ln -s /proc/self/fd/{number} /app", cwd="/"))
                reached += [number] if await leads_out(sandbox, phase) else []
            assert reached == []
            assert await get_file(victim, "/app/secret", limit=100) == b"of the victim"

    async def leads_out(sandbox, phase):
        try:
            result = await sandbox.exec(shell("ls; echo forged >upper/root/app/secret", phase=phase))
        except SandboxError:
            return False  # a link that leads nowhere
        return b"upper" in result.stdout

    run(attack, mode)


@pytest.mark.parametrize("phase", sampled(["agent", "verifier"]))
def test_a_newcomer_that_is_stopped_on_its_way_in_opens_no_door(mode, phase: Phase, tmp_path: Path):
    """Until it has entered, its root is the host's: links through it must be as closed to us as they are inside."""
    secret = tmp_path / "secret"
    secret.write_text("of the host")

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            stopping = [asyncio.ensure_future(sandbox.exec(python(STOPPER)))]
            await asyncio.to_thread(wait_until, lambda: len(children(os.getpid())) > 6)
            stopping += [asyncio.ensure_future(sandbox.exec(shell("sleep 1000"))) for _ in range(12)]
            for pid in range(2, 24):
                await plant(sandbox, "/app", "way", f"/proc/{pid}/root")
                with suppress(SandboxError, FileNotFoundError):
                    assert await get_file(sandbox, f"/app/way{secret}", limit=100, phase=phase) == b"of the host"
                    pytest.fail(f"the host was read through process {pid}")
                with suppress(SandboxError):
                    await put_file(sandbox, f"/app/way{tmp_path}/forged", b"x", phase=phase)
            for task in stopping:
                task.cancel()
            await asyncio.wait(stopping)

    run(attack, mode, tmp_path)
    assert not (tmp_path / "forged").exists()


async def plant(sandbox, directory, name, target):
    """Make a link, as an agent could at any time."""
    with new_archive() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        archive.seek(0)
        await sandbox.put(directory, archive)


@pytest.mark.parametrize("phase", sampled(["agent", "verifier"]))
def test_files_put_and_got_through_links_into_proc(mode, phase: Phase):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as victim, open_sandbox(backend, SandboxSpec()) as sandbox:
            for number in DESCRIPTORS:
                await plant(sandbox, "/app", "way", f"/proc/self/fd/{number}")
                with suppress(SandboxError):
                    await put_file(sandbox, "/app/way/upper/root/app/forged", b"x", phase=phase)
                for path in ("/app/way/upper", "/app/way/start.json"):
                    with pytest.raises((SandboxError, FileNotFoundError)), new_archive() as archive:
                        await sandbox.get(path, archive, phase=phase)
            assert await ask(victim, shell("ls /app")) == ""

    run(attack, mode)


def test_put_and_get_follow_links_no_further_than_the_sandbox(mode, tmp_path: Path):
    """An absolute link means a path inside, whatever is at that path outside."""
    secret = tmp_path / "secret"
    secret.write_text("of the host")

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await sandbox.exec(shell(f"ln -s {tmp_path} way; ln -s {secret} copy; ln -s / root"))
            for path in ("/app/way/secret", "/app/copy", f"/app/root{secret}"):
                with pytest.raises((SandboxError, FileNotFoundError)):
                    await get_file(sandbox, path, limit=100)
            await put_file(sandbox, "/app/copy", b"inside")
            assert await get_file(sandbox, "/app/copy", limit=100) == b"inside"
            assert await ask(sandbox, shell("readlink way")) == str(tmp_path)

    run(attack, mode)
    assert secret.read_text() == "of the host"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


@pytest.mark.parametrize("name", sampled(["/etc/absolute", "../../etc/above", "a/../../above"]))
def test_archive_members_that_point_elsewhere(mode, name):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            with new_archive() as archive:
                with tarfile.open(fileobj=archive, mode="w") as tar:
                    tar.addfile(tarfile.TarInfo(name), io.BytesIO())
                archive.seek(0)
                with pytest.raises(SandboxError, match=name):
                    await sandbox.put("/app", archive)
            assert await ask(sandbox, shell("find / -xdev -name above; ls /etc/absolute || true")) == ""

    run(attack, mode)


@pytest.mark.parametrize(
    "line",
    sampled(
        [
            "root:x:0:not-a-number::/:/bin/sh",
            "root:x:0:99999999999::/:/bin/sh",
            "root:x:0:\u00b2::/:/bin/sh",
            "0:x:1234:1234::/:/bin/sh",
            "other:x:0:1234::/:/bin/sh",
            "\0" * 1000,
            ":" * 1000,
        ]
    ),
    ids=["no number", "huge", "superscript", "named zero", "a second root", "zeros", "colons"],
)
def test_root_is_root_whatever_the_list_of_users_says(mode, line):
    """Else an agent chooses whom the verifier runs as, or that it cannot run at all."""

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await put_file(sandbox, "/etc/passwd", f"{line}\n".encode())
            await put_file(sandbox, "/etc/group", f"{line}\n".encode())
            assert await ask(sandbox, ExecSpec(("id", "-u"), phase="verifier", timeout_sec=20)) == "0"
            assert await ask(sandbox, ExecSpec(("id", "-g"), phase="verifier", timeout_sec=20)) == "0"

    run(attack, mode)


@pytest.mark.parametrize("phase", sampled(["agent", "verifier"]))
def test_a_working_directory_that_is_gone_is_no_failure_of_the_sandbox(mode, phase: Phase):
    """It ends like any command that cannot be run, so that nobody can turn a bad result into a broken machine."""

    async def attack(backend):
        for instead in ("true", "echo >/app", "ln -s /nowhere /app"):
            async with open_sandbox(backend, SandboxSpec()) as sandbox:
                await ask(sandbox, shell(f"rm -rf /app; {instead}", cwd="/"))
                result = await sandbox.exec(shell("echo here", phase=phase))
                assert result.exit_code == 126, instead
                assert b"/app" in result.stderr

    run(attack, mode)


def test_a_user_who_is_gone_is_no_failure_of_the_sandbox(mode):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell("sed -i /nobody/d /etc/passwd"))
            result = await sandbox.exec(ExecSpec(("id",), user="nobody", phase="verifier"))
            assert result.exit_code == 126
            assert b"nobody" in result.stderr

    run(attack, mode)


@pytest.mark.parametrize(
    "kind", sampled(["mkfifo", "ln -s /dev/zero", "ln -s /proc/kmsg", "ln -s /etc/passwd", "mkdir"])
)
def test_a_list_of_users_that_is_no_file(mode, kind):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell(f"rm /etc/passwd /etc/group; {kind} /etc/passwd; {kind} /etc/group"))
            assert await ask(sandbox, ExecSpec(("id", "-u"), phase="verifier", timeout_sec=20)) == "0"

    run(attack, mode)


@pytest.mark.whole
def test_a_tree_too_deep_to_walk_by_recursion(mode, tmp_path: Path):
    """It can be measured and removed like any other; above all, it does not keep the next run from starting."""

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            before = (await sandbox.usage()).disk_bytes or 0
            await ask(sandbox, python(NESTED))
            assert ((await sandbox.usage()).disk_bytes or 0) - before > 8 * 2**20
            await ask(sandbox, shell("echo x >/app/after"))
            changes = await sandbox.changes()
            assert "/app/after" in changes.added
            assert changes.truncated

    try:
        run(attack, mode, tmp_path)
        assert list(tmp_path.iterdir()) == []
        run(lambda backend: backend.probe(), mode, tmp_path)
    finally:  # should it be there still, not even pytest could remove it
        subprocess.run(["/bin/rm", "-rf", tmp_path], check=True, timeout=60)


def test_names_that_are_no_text(mode):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, python(r"open(b'/app/\xff\n', 'w'); import os; os.mkdir(b'/\xfe\\')"))
            changes = await sandbox.changes()
            assert len([path for path in changes.added if path.startswith("/app/")]) == 1
            assert await ask(sandbox, shell("ls /app | wc -c", phase="verifier")) == "3"

    run(attack, mode)


@pytest.mark.parametrize("folder", sampled(["/", "/logs/"]))
def test_a_folder_with_thousands_of_entries_keeps_no_verifier_from_work(mode, folder, caplog):
    """Only so many mounts may exist: of the agent's entries the verifier sees some, of the image's all."""

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            before = set((await ask(sandbox, shell("ls -A /; echo app"))).split())
            make = f"import os\nfor number in range(3000): os.mkdir(f'{folder}!{{number}}')"
            await ask(sandbox, python(make))
            await ask(sandbox, shell("touch /logs/agent/log"))
            seen = await ask(sandbox, shell(f"ls -A {folder}; ls -A / /logs/agent", phase="verifier"))
            assert before <= set(seen.split())
            assert "log" in seen.split()
            assert 500 < seen.count("!") < 2500

    run(attack, mode)
    assert "the verifier does not see 2" in caplog.text


def test_files_that_come_and_go_while_we_look(mode):
    """What is gone by the time it is looked at has never been there."""
    code = """if 1:
        import os
        os.mkdir("d")
        while True:
            for number in range(50):
                open(f"d/{number}", "w").close()
                os.makedirs(f"d/{number}x/below")
            for number in range(50):
                os.unlink(f"d/{number}")
                os.rmdir(f"d/{number}x/below")
                os.rmdir(f"d/{number}x")
    """

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            running = asyncio.ensure_future(sandbox.exec(python(code)))
            await put_file(sandbox, "/app/steady", b"x")
            for _ in range(30):
                assert ((await sandbox.usage()).disk_bytes or 0) > 0
                assert "/app/steady" in (await sandbox.changes()).added
            running.cancel()
            await asyncio.wait([running])

    run(attack, mode)
