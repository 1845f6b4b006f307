"""Our end of the wire: what becomes of answers that nobody waits for any more."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.sandbox.embedded.client import SpawnerClient, find_hindrance, find_missing_proc
from seatrial.sandbox.embedded.protocol import receive, send
from tests.sandbox.embedded.support import needs_root


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def ask_and_give_up(answer: Callable[[], None], client: SpawnerClient, *, before_the_answer: bool) -> None:
    """Wait for something and give up at the worst moment: right before its answer comes, or right after."""
    asked = asyncio.ensure_future(client.call("listen", port=80))
    await asyncio.sleep(0)
    if before_the_answer:
        asked.cancel()
        await asyncio.wait([asked])
    answer()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


@pytest.mark.parametrize("before_the_answer", [True, False])
def test_what_comes_with_an_answer_that_nobody_waits_for_is_closed(before_the_answer, tmp_path: Path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client = SpawnerClient("root", tmp_path)
    client._connection = ours
    passed = []

    def answer() -> None:
        asked = receive(theirs)
        assert asked
        listener = os.open(os.devnull, os.O_RDONLY)
        send(theirs, {"id": asked[0]["id"]}, [listener])
        os.close(listener)
        message, descriptors = receive(ours) or ({}, [])
        passed.extend(descriptors)
        client._dispatch(message, descriptors)

    with ours, theirs:
        asyncio.run(ask_and_give_up(answer, client, before_the_answer=before_the_answer))
    assert [is_open(descriptor) for descriptor in passed] == [False]


FREE = "CapEff:\t000001ffffffffff\nSeccomp:\t0\n"
FILTERED = "CapEff:\t0000000000000000\nSeccomp:\t2\n"
POOR_ROOT = "CapEff:\t00000000a80425fb\nSeccomp:\t0\n"


@pytest.fixture
def make_proc(tmp_path):
    def make(status=FREE, mount="/", **knobs):
        (tmp_path / "self").mkdir()
        (tmp_path / "self/mountinfo").write_text(f"29 1 254:0 / {mount} rw,relatime - ext4 /dev/vda rw\n")
        (tmp_path / "self/status").write_text(status)
        for knob, value in knobs.items():
            path = tmp_path / "sys" / knob.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
        return tmp_path

    return make


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize(("mount", "reason"), [("/proc", "this is a chroot"), ("/", "perhaps this is a chroot")])
def test_a_chroot_is_known_by_its_root_or_because_nothing_else_hinders(make_proc, uid, mount, reason):
    found = find_hindrance(make_proc(mount=mount), uid)
    assert reason in found.reason
    assert "pivot_root" in found.fix
    assert "-e docker" in found.fix


@pytest.mark.parametrize(
    ("knob", "value", "setting"),
    [
        ("kernel__apparmor_restrict_unprivileged_userns", 1, "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel__unprivileged_userns_clone", 0, "kernel.unprivileged_userns_clone=1"),
        ("user__max_user_namespaces", 0, "user.max_user_namespaces=10000"),
    ],
)
def test_what_is_switched_off_is_switched_on_by_a_command(make_proc, knob, value, setting):
    proc = make_proc(**{knob: value})
    found = find_hindrance(proc, 1000)
    assert f"{proc}/sys/{knob.replace('__', '/')} is {value}" in found.reason
    assert found.fix == f"sudo sysctl -w {setting}"


def test_what_is_only_for_others_does_not_hinder_root(make_proc):
    assert "switched off" not in find_hindrance(make_proc(kernel__unprivileged_userns_clone=0), 0).reason


@pytest.mark.parametrize(
    ("status", "uid", "reason", "option"),
    [
        (FILTERED, 1000, "a seccomp filter", "--security-opt seccomp=unconfined"),
        (POOR_ROOT, 0, "no CAP_SYS_ADMIN", "--user 1000"),
    ],
)
def test_containers_are_told_which_options_they_need(make_proc, status, uid, reason, option):
    found = find_hindrance(make_proc(status), uid)
    assert reason in found.reason
    assert option in found.fix


def test_nothing_can_be_said_without_proc(tmp_path, make_proc):
    missing = find_missing_proc(tmp_path / "none")
    assert str(missing) == f"{tmp_path}/none is not mounted; mount it: mount -t proc proc {tmp_path}/none"
    assert find_missing_proc(make_proc()) is None


@needs_root
def test_a_real_chroot_says_what_it_is(tmp_path):
    """The host's own root, bound to a directory and entered the wrong way."""
    (tmp_path / "root").mkdir()
    enter = 'mount --rbind / "$1" && exec chroot "$1" "$2" -m seatrial doctor --json'
    command = ["unshare", "--mount", "sh", "-c", enter, "sh", str(tmp_path / "root"), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    (found,) = [finding for finding in findings if finding["step"] == "namespaces"]
    assert (done.returncode, found["status"]) == (1, "fails"), done.stderr
    assert "chroot, in which the kernel makes no namespaces" in found["detail"]
    assert "pivot_root" in found["fix"]
