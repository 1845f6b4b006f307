"""A hostile root inside a sandbox gets nowhere: every way out that is known is tried, in both modes."""

import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.sandbox.api import ExecSpec
from tests.conftest import sampled
from tests.sandbox.embedded.attacks import ALL, PRELUDE
from tests.sandbox.embedded.support import MODES, Box, needs_python, needs_root, open_box, python, shell

pytestmark = [needs_root, needs_python]

THE_DISK = f"DISK = {Path('/').stat().st_dev}\n"

# getpid by the door of 32-bit programs, whose numbers mean other calls: mov eax, 20; int 0x80; ret
OLD_DOOR = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
"""


@pytest.fixture(scope="module", params=sampled(MODES))
def box(request) -> Iterator[Box]:
    with open_box(request.param) as opened:
        yield opened


@pytest.mark.parametrize("name", ALL)
def test_refused(box, name):
    attack = ALL[name]
    outcome = box.ask(python(PRELUDE, THE_DISK + attack.code))
    assert outcome in attack.refused


def test_no_attack_is_refused_for_a_mistake_in_it(tmp_path):
    """The helpers of the table work: outside, the harmless half of it succeeds."""
    namespace = {"__name__": "table"}
    code = PRELUDE.partition("try:")[0] + "found = call('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)\n"
    exec(code, namespace)  # noqa: S102 - our own words
    os.close(namespace["found"])  # type: ignore[arg-type]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has a second and a third door")
def test_the_filter_knows_the_other_doors_into_the_kernel(box):
    result = box.exec(python(OLD_DOOR))
    assert result.exit_code == -11 or result.stdout == b"-1\n"  # a kernel without that door ends the program
    by_x32 = "print(libc.syscall(ctypes.c_long(0x40000000 + 39)), errno.errorcode[ctypes.get_errno()])"
    assert box.ask(python(PRELUDE, by_x32)) == "-1 ENOSYS\nit worked"


@pytest.mark.parametrize("mode", sampled(MODES))
def test_the_first_process_cannot_be_ended(mode):
    with open_box(mode) as box:
        for number in {*range(1, 65)} - {32, 33}:
            assert box.exec(shell(f"kill -{number} 1")).exit_code in (0, 1)  # 1: not even allowed to try
        assert box.exec(shell("kill -9 -1")).exit_code in (0, 1, -9)
        assert box.ask(shell("echo alive")) == "alive"


def test_a_second_root_leads_nowhere(box):
    """The old way out of a chroot: keep a directory from before, then climb."""
    code = """if 1:
        os.makedirs('/tmp/cell', exist_ok=True)
        outside = os.open('/', os.O_RDONLY)
        os.chroot('/tmp/cell')
        os.fchdir(outside)
        for _ in range(50):
            os.chdir('..')
        os.chroot('.')
        print(sorted(os.listdir('/')) == sorted(os.listdir(outside)))
    """
    assert box.ask(python(PRELUDE, code)) == "True\nit worked"


def test_capabilities_are_those_of_a_container_and_no_more(box):
    status = dict(line.split(":", 1) for line in box.ask(shell("cat /proc/self/status")).splitlines() if ":" in line)
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status[kind], 16) == 0xA80425FB, kind
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert status["Seccomp"].strip() == "2"


def test_another_user_can_be_had_and_has_no_rights(box):
    """Programs with the setuid bit and `su` work: nothing sets no_new_privs."""
    assert box.ask(shell("su nobody -s /bin/sh -c 'id -u; cat /root/x 2>&1 | grep -c denied'")) == "65534\n1"
    assert box.ask(shell("su daemon -s /bin/sh -c 'id -un'")) == "daemon"
    box.ask(shell("cp /usr/bin/id /usr/local/bin/own-id; chmod 4755 /usr/local/bin/own-id"))
    assert box.ask(ExecSpec(("/usr/local/bin/own-id", "-u"), user="nobody")) == "0"
    assert "NoNewPrivs:\t0" in box.ask(shell("cat /proc/self/status"))
    for spec in (ExecSpec(("id", "-un"), user="nobody"), ExecSpec(("id", "-un"), user="65534")):
        assert box.ask(spec) == "nobody"


def test_a_user_inside_has_no_more_rights_than_root_inside(box):
    for name in ("mounts: mount a tmpfs", "namespaces: unshare a user namespace", "kernel: bpf"):
        assert box.ask(python(PRELUDE, ALL[name].code, user="nobody")) == errno.errorcode[errno.EPERM]
