"""What cannot be frozen is refused, what moves while it is copied leads nowhere, and nothing is left of any of it."""

import asyncio

import pytest

from seatrial.errors import SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Curation, Sandbox, SandboxSpec, open_sandbox
from tests.conftest import sampled
from tests.sandbox.embedded.support import (
    ask,
    in_both_modes,
    loop_devices,
    mounts,
    needs_python,
    needs_root,
    python,
    run,
    shell,
)
from tests.sandbox.embedded.test_frozen import freeze, image, judge, play

__all__ = ["image"]  # pytest finds fixtures by their names
pytestmark = [needs_root, needs_python, in_both_modes]

REPLACED = {
    "a link for the home": "mv /root /old; ln -s /old /root",
    "too deep": "cd /usr; for i in $(seq 30); do mkdir -p a/a/a/a/a; cd a/a/a/a/a; done",
    "too much": "truncate -s 5G /usr/huge",
}


@pytest.mark.parametrize("what", sampled(REPLACED))
def test_what_cannot_be_frozen_is_refused_and_leaves_nothing_behind(mode, what, tmp_path):
    async def scene(sandbox):
        await sandbox.exec(shell(REPLACED[what]))
        with pytest.raises(SandboxError):
            await freeze(sandbox)
        assert not list(tmp_path.glob("run-*/*.frozen"))
        await ask(sandbox, shell("echo now >/usr/bin/x"))
        assert await ask(sandbox, judge("cat /usr/bin/x")) == "now"

    play(mode, scene, root=tmp_path)


@pytest.mark.parametrize("folder", sampled(["/opt", "/etc", "/usr", "/var", "/var/lib", "/var/lib/dpkg", "/root"]))
def test_a_link_in_place_of_a_folder_cannot_be_frozen(mode, image, folder):
    """What it leads to may be the agent's, and cannot be seen in a copy."""

    async def scene(sandbox):
        await ask(sandbox, shell(f"mkdir /tmp/mine; rm -rf {folder}; ln -s /tmp/mine {folder}"))
        with pytest.raises(SandboxError, match=f"{folder} has been replaced"):
            await freeze(sandbox)
        await freeze(sandbox, Curation(keep="nothing"))
        assert await ask(sandbox, judge(f"test -d {folder} && test ! -L {folder} && ls {folder}/mine; true")) == ""

    if image.layers or folder == "/root":
        play(mode, scene, SandboxSpec(image))


# Replaces a folder by a link into the host's eyes, and back, as fast as it can.
SWAPPER = """if 1:
    import os
    os.makedirs("/usr/swap/a/etc", exist_ok=True)
    for number in range(200):
        open(f"/usr/swap/a/etc/{number}", "w").close()
    open("/usr/swap/a/etc/machine-id", "w").write("mine")
    os.symlink("/", "/usr/swap/b")
    if os.fork() == 0:
        os.setsid()
        while True:
            for old, new in (("a", "c"), ("b", "a"), ("a", "b"), ("c", "a")):
                os.rename(f"/usr/swap/{old}", f"/usr/swap/{new}")
"""


@pytest.mark.whole
def test_a_link_that_appears_while_copying_leads_nowhere(mode):
    async def scene(sandbox):
        await ask(sandbox, python(SWAPPER))
        for _ in range(8):
            await freeze(sandbox)
            look = "cd /usr/swap; find . -type f ! -path '*/etc/*'; find . -name machine-id -exec cat {} ';'"
            assert (await ask(sandbox, judge(look))).replace("mine", "") == ""

    play(mode, scene)


def test_nothing_is_left_of_frozen_systems(mode, tmp_path):
    """Neither mounts nor folders, be it after a renewal or after the end."""

    async def work(backend):
        spec = SandboxSpec(limits=LimitSpec(storage_mb=512))
        for _ in range(3):
            async with open_sandbox(backend, spec) as sandbox:
                await ask(sandbox, shell("echo x >/usr/bin/x"))
                for _ in range(2):
                    await freeze(sandbox)
                    assert len(list(tmp_path.glob("run-*/*.frozen"))) == 1
                    await ask(sandbox, judge("cat /usr/bin/x; (sleep 1000 >/dev/null 2>&1 &)"))
                await sandbox.renew_verifier()
                assert list(tmp_path.glob("run-*/*.frozen")) == []
                await freeze(sandbox)
            assert [path.name for path in tmp_path.glob("run-*/*")] == ["prepared"]

    run(work, mode, tmp_path)
    assert loop_devices(str(tmp_path)) == []
    assert mounts(str(tmp_path)) == []


async def _race(sandbox: Sandbox) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(freeze(sandbox))
        group.create_task(sandbox.renew_verifier())
        group.create_task(freeze(sandbox))
        group.create_task(sandbox.exec(judge("ls /usr")))


def test_renewals_at_the_same_time_take_turns(mode):
    play(mode, _race)
