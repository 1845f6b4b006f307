"""A frozen system: what the agent's processes do to it is not seen by the verifier, and everything else is."""

import shutil
from pathlib import Path

import pytest

from seatrial.model.record import FileChanges, LimitSpec
from seatrial.sandbox.api import AS_COPIED, HOST_IMAGE, Curation, Image, Sandbox, SandboxSpec, SystemCopy, open_sandbox
from seatrial.sandbox.transfer import put_file
from tests.conftest import sampled
from tests.sandbox.embedded.support import ask, in_both_modes, needs_python, needs_root, python, run, shell

pytestmark = [needs_root, needs_python, in_both_modes]

BUSYBOX = shutil.which("busybox")
# On the host's disk, on a disk of its own that is an image, and on one in memory.
DISKS = {"shared disk": None, "own disk": 512, "own memory": 16}


def judge(script: str, **changes):
    return shell(script, phase="verifier", cwd="/", **changes)


async def freeze(sandbox: Sandbox, curation: Curation = AS_COPIED) -> FileChanges:
    """Give the verifier a system of its own; returns what the agent did to it."""
    copies: list[SystemCopy] = []

    async def curate(copy: SystemCopy) -> Curation:
        copies.append(copy)
        return curation

    await sandbox.renew_verifier(curate)
    return copies[0].changes


@pytest.fixture(params=["host", "layers"])
def image(request, tmp_path: Path) -> Image:
    """The host's own system, and one that is all in one overlay."""
    if request.param == "host":
        return HOST_IMAGE
    if BUSYBOX is None:
        pytest.skip("no busybox to make an image of")
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for folder in ("bin", "usr/bin", "usr/share/thing", "etc", "root/.config", "var/lib/dpkg", "var/lib/data", "opt"):
        (lower / folder).mkdir(parents=True)
    shutil.copy(BUSYBOX, lower / "bin/busybox")
    for name in ("sh", "cat", "ls", "mkdir", "rm", "mv", "ln", "test", "touch", "chmod", "stat", "id", "mkfifo", "nc"):
        (lower / "bin" / name).symlink_to("busybox")
    (lower / "usr/share/thing/file").write_text("of the image\n")
    (lower / "root/.config/settings").write_text("of the image\n")
    (lower / "root/notes").write_text("of the image\n")
    (upper / "etc").mkdir(parents=True)
    (upper / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    return Image("test", layers=(lower, upper))


def play(mode, scene, spec: SandboxSpec = SandboxSpec(), root: Path | None = None) -> None:  # noqa: B008 - frozen
    async def work(backend):
        async with open_sandbox(backend, spec) as sandbox:
            await scene(sandbox)

    run(work, mode, root)


@pytest.mark.parametrize("disk", sampled(DISKS))
def test_what_the_agent_did_before_is_seen_and_what_it_does_after_is_not(mode, image, disk):
    async def scene(sandbox):
        await ask(sandbox, shell("mkdir -p /usr/local/bin /opt/tool; echo before | tee /usr/local/bin/x >/opt/tool/y"))
        await ask(sandbox, shell("mkdir -p /root/.local; echo before >/root/.local/z; echo before >/etc/w"))
        changes = await freeze(sandbox)
        assert set(changes.added) >= {"/usr/local/bin/x", "/opt/tool/y", "/root/.local/z", "/etc/w"}
        files = "/usr/local/bin/x /opt/tool/y /root/.local/z /etc/w"
        after = f"for f in {files}; do echo after >$f; done; echo after >/usr/local/bin/new; mv /opt/tool /opt/gone"
        await ask(sandbox, shell(after))
        assert (await ask(sandbox, judge(f"cat {files}"))).split() == ["before"] * 4
        assert await ask(sandbox, judge("ls /usr/local/bin/new 2>/dev/null; true")) == ""
        assert (await ask(sandbox, shell("cat /usr/local/bin/new"))) == "after"

    play(mode, scene, SandboxSpec(image, LimitSpec(storage_mb=DISKS[disk])))


def test_everything_else_is_shared_while_the_verifier_runs(mode, image):
    """Also in the folders of which some entries are frozen."""
    folders = "/app /tmp /home /srv /var/lib/mine /var/mine /root/mine /logs/artifacts /usr/local/work"

    async def scene(sandbox):
        await ask(
            sandbox, shell(f"mkdir -p {folders}; echo old >/root/plain; ln -s /app /root/link; mkfifo /root/pipe")
        )
        await freeze(sandbox)
        await ask(sandbox, shell(f"for f in {folders}; do echo agent >$f/a; done; echo new >/root/plain"))
        shared = folders.replace(" /usr/local/work", "")
        assert set((await ask(sandbox, judge(f"for f in {shared}; do cat $f/a; done"))).split()) == {"agent"}
        assert await ask(sandbox, judge("cat /root/plain /root/link/a; test -p /root/pipe && echo pipe")) == (
            "new\nagent\npipe"
        )
        await ask(sandbox, judge(f"for f in {shared}; do echo verifier >$f/v; done"))
        assert set((await ask(sandbox, shell(f"for f in {shared}; do cat $f/v; done"))).split()) == {"verifier"}

    play(mode, scene, SandboxSpec(image))


def test_what_the_verifier_writes_to_the_system_is_its_own(mode, image):
    own = "/usr/bin/mine /etc/mine /opt/mine /root/.mine /var/lib/dpkg/mine"

    async def scene(sandbox):
        await freeze(sandbox)
        await ask(sandbox, judge(f"for f in {own}; do echo verifier >$f || exit 1; done; chmod 755 /usr/bin/mine"))
        assert set((await ask(sandbox, judge(f"cat {own}"))).split()) == {"verifier"}
        assert await ask(sandbox, judge("stat -c %u /usr/bin/mine /usr /etc /var/lib /root")) == "0\n0\n0\n0\n0"
        assert await ask(sandbox, shell(f"ls {own} 2>/dev/null; true")) == ""
        assert (await sandbox.changes()).added == ()
        await freeze(sandbox)
        assert await ask(sandbox, judge(f"ls {own} 2>/dev/null; true")) == ""

    play(mode, scene, SandboxSpec(image))


@pytest.mark.whole
def test_what_the_agent_removed_is_gone_and_stays_so(mode, image):
    folder, whole = ("/usr/share/thing", "/usr/share/thing") if image.layers else ("/usr/share/doc", "/usr/share/man")

    async def scene(sandbox):
        await ask(
            sandbox, shell(f"rm -rf {folder} {whole}; mkdir {folder}; echo mine >{folder}/only; rm -f /root/notes")
        )
        changes = await freeze(sandbox)
        assert changes.removed
        await ask(sandbox, shell(f"rm -rf {folder}"))
        assert await ask(sandbox, judge(f"ls {folder}")) == "only"
        assert (await sandbox.exec(judge("ls /root/notes"))).exit_code != 0
        assert (await ask(sandbox, judge(f"mkdir -p {whole}; ls {whole}"))) in ("", "only")

    play(mode, scene, SandboxSpec(image))


def test_what_setting_up_wrote_is_nobody_s_change(mode, image):
    async def scene(sandbox):
        await put_file(sandbox, "/usr/bin/tool", b"before\n")
        await put_file(sandbox, "/usr/bin/other", b"before\n")
        await ask(sandbox, shell("echo after >/usr/bin/other", changes_from_here=True))
        changes = await freeze(sandbox)
        assert (changes.added, changes.modified, changes.removed) == (("/usr/bin/other",), (), ())
        assert await ask(sandbox, judge("cat /usr/bin/tool")) == "before"

    play(mode, scene, SandboxSpec(image))


def test_owners_modes_and_links_are_kept(mode, image):
    make = "cd /usr/bin; echo x >a; chmod 4750 a; ln -s a b; mkdir -p c/d; chmod 700 c; mkfifo e"
    make += "; touch -h -t 202001020304 a b c e"

    async def scene(sandbox):
        await ask(sandbox, shell(f"{make}; chown 12:34 a c" if not image.layers else make))
        look = "cd /usr/bin; stat -c '%F %a %u %g %Y %N' a b c c/d e"
        before = await ask(sandbox, shell(look))
        await freeze(sandbox)
        assert await ask(sandbox, judge(look)) == before

    play(mode, scene, SandboxSpec(image))


@pytest.mark.parametrize("workdir", sampled(["/usr/src/app", "/opt", "/root", "/root/.work", "/var/lib/dpkg/app"]))
def test_the_task_s_own_folder_is_shared_wherever_it_is(mode, image, workdir):
    async def scene(sandbox):
        await ask(sandbox, shell("echo before >x"))
        await freeze(sandbox)
        await ask(sandbox, shell("echo after >x; echo new >y; mkdir -p /usr/local/bin; echo z >/usr/local/bin/z"))
        assert (
            await ask(sandbox, judge(f"cd {workdir}; cat x y; echo v >v; ls /usr/local/bin/z || true")) == "after\nnew"
        )
        assert await ask(sandbox, shell("cat v")) == "v"

    play(mode, scene, SandboxSpec(image, workdir=workdir))


def test_files_in_the_root_itself_are_those_that_were_looked_at(mode, image):
    async def scene(sandbox):
        await ask(sandbox, shell("echo before >/plain; ln -s /app /link; mkdir /folder"))
        changes = await freeze(sandbox)
        assert changes.added == ("/link", "/plain")
        await ask(
            sandbox, shell("echo after >/plain; rm /link; ln -s /tmp /link; echo x >/conftest.py; echo x >/folder/y")
        )
        assert await ask(
            sandbox, judge("cat /plain; ls /folder; ls /conftest.py 2>/dev/null; test /link/ -ef /app/")
        ) == ("before\ny")

    play(mode, scene, SandboxSpec(image))


SERVER = """if 1:
    import os, socket
    os.makedirs("/opt/service")
    os.mkfifo("/opt/service/pipe")
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for listener, path in zip(listeners, ("/opt/service/socket", "/socket")):
        listener.bind(path)
        listener.listen()
    if os.fork() == 0:
        os.setsid()
        for listener in listeners:
            listener.accept()[0].sendall(b"hello")
        open("/opt/service/pipe", "w").write("through the pipe")
"""
CLIENT = """if 1:
    import socket
    for path in ("/opt/service/socket", "/socket"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        print(client.recv(5).decode())
    print(open("/opt/service/pipe").read())
"""


def test_sockets_and_pipes_in_the_system_lead_to_those_who_made_them(mode):
    async def scene(sandbox):
        await ask(sandbox, python(SERVER))
        await freeze(sandbox)
        assert await ask(sandbox, python(CLIENT, phase="verifier")) == "hello\nhello\nthrough the pipe"

    play(mode, scene)


def test_a_link_of_the_setup_is_nobody_s_change(mode):
    async def scene(sandbox):
        await ask(sandbox, shell("ln -s /app /usr/bin/link; echo x >/usr/bin/file"))
        await ask(sandbox, shell("true", changes_from_here=True))
        assert await freeze(sandbox) == FileChanges()

    play(mode, scene)


@pytest.mark.parametrize("disk", sampled(DISKS))
def test_what_the_verifier_does_to_its_copy_leaves_the_agent_s_files_alone(mode, image, disk):
    """Also where nothing was running, so that a copy is but a second name of the same file."""

    async def scene(sandbox):
        await ask(
            sandbox, shell("mkdir -p /usr/own; echo agent >/usr/own/a; echo agent >/usr/own/b; chmod 640 /usr/own/b")
        )
        await freeze(sandbox, Curation(rewritten={"/usr/own/b": "rewritten\n"}))
        assert await ask(sandbox, judge("cat /usr/own/a /usr/own/b; stat -c %a /usr/own/b")) == "agent\nrewritten\n640"
        await ask(sandbox, judge("echo verifier >>/usr/own/a; echo verifier >/usr/own/b; rm /usr/own/b"))
        assert await ask(sandbox, shell("cat /usr/own/a /usr/own/b; stat -c %h /usr/own/a")) in (
            "agent\nagent\n1",
            "agent\nagent\n2",
        )
        await ask(sandbox, shell("echo later >/usr/own/a"))
        await sandbox.renew_verifier()
        assert await ask(sandbox, shell("cat /usr/own/a; stat -c %h /usr/own/a")) == "later\n1"

    play(mode, scene, SandboxSpec(image, LimitSpec(storage_mb=DISKS[disk])))
