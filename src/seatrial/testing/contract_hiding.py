"""The contract of processes that hide: whatever one calls itself and however it is made, it is listed and can be ended.

The program that hides runs inside, by python3 where the sandbox has it; else one is compiled here and copied.
"""
# ruff: noqa: S101 - assertions are what it is for

import asyncio
import shutil
import subprocess

import pytest

from seatrial.sandbox.process_names import NO_NAME, RESTLESS
from seatrial.sandbox.transfer import put_file
from seatrial.testing.contract_base import Bench, ContractBase, new_mark, scenario

# Both programs: `hide NAME WAY` leaves an orphan of its own session behind, and ends when that has hidden.
_PYTHON = """
import ctypes, os, platform, sys, threading
libc = ctypes.CDLL(None)
name, way = sys.argv[1:]
ready, hidden = os.pipe()
if os.fork():
    os.close(hidden)
    os.read(ready, 1)
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for standard in (0, 1, 2):
    os.dup2(null, standard)
libc.prctl(15, name.encode(), 0, 0, 0)
if way == "leaderless":
    wait = threading.Event().wait
    threading.Thread(target=lambda: (os.close(hidden), wait())).start()
    libc.syscall({"x86_64": 60}.get(platform.machine(), 93), 0)
os.close(hidden)
while way == "restless":
    if os.fork():
        os._exit(0)
threading.Event().wait()
"""
_C = r"""
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int hidden;
static void *rest(void *nothing) { close(hidden); for (;;) pause(); }
int main(int count, char **words) {
    int ends[2]; char byte; pthread_t thread;
    if (pipe(ends)) return 1;
    hidden = ends[1];
    if (fork()) { close(hidden); return read(ends[0], &byte, 1) != 0; }
    setsid();
    if (fork()) _exit(0);
    int null = open("/dev/null", O_RDWR);
    for (int standard = 0; standard < 3; standard++) dup2(null, standard);
    prctl(PR_SET_NAME, words[1], 0, 0, 0);
    if (!strcmp(words[2], "leaderless")) { pthread_create(&thread, 0, rest, 0); syscall(SYS_exit, 0); }
    close(hidden);
    while (!strcmp(words[2], "restless")) if (fork()) _exit(0);
    for (;;) pause();
}
"""


class HidingContract(ContractBase):
    """Survivors that would rather not be seen."""

    @scenario
    async def test_whatever_hides_is_listed_and_ended(self, bench: Bench) -> None:
        """With no name, an odd one, or without its first thread."""
        hide = await _bring(bench)
        expected = {
            ("", "plain"): NO_NAME,
            (" ", "plain"): NO_NAME,
            ("a) S 1 (b", "plain"): "a) S 1 (b",
            ("quiet", "leaderless"): "quiet",
            ("", "leaderless"): NO_NAME,
        }
        for (name, way), shown in expected.items():
            mark = new_mark()
            result = await bench.run(*hide, name, way, env={"MARK": mark})
            assert result.exit_code == 0, result
            assert await bench.sandbox.processes() == (shown,), (name, way)
            await bench.sandbox.kill_all()
            assert await bench.sandbox.processes() == (), (name, way)
            assert self.leftovers(mark) == []

    @scenario
    async def test_a_name_of_several_lines_is_shown_on_one(self, bench: Bench) -> None:
        """However the backend writes out what cannot be printed."""
        hide = await _bring(bench)
        await bench.run(*hide, "one\ntwo", "plain")
        (shown,) = await bench.sandbox.processes()
        assert shown.isprintable()
        assert (shown[:3], shown[-3:]) == ("one", "two")

    @scenario
    async def test_whoever_never_rests_is_listed_and_ended(self, bench: Bench) -> None:
        """A process that moves on to a new number faster than anybody looks."""
        if bench.capabilities.isolation == "none":
            pytest.skip("plain processes cannot be stopped all at once")
        hide = await _bring(bench)
        await bench.run(*hide, "never", "restless")
        found = await bench.sandbox.processes()
        assert found
        assert set(found) <= {"never", RESTLESS}
        await bench.sandbox.kill_all()
        assert await bench.sandbox.processes() == ()


async def _bring(bench: Bench) -> tuple[str, ...]:
    """The command that hides, in front of its arguments."""
    if (await bench.sh("python3 -c 'import ctypes'")).exit_code == 0:
        return ("python3", "-c", _PYTHON)
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no python3 in this sandbox and no C compiler on this machine to make a process hide with")
    source, program = bench.scratch / "hide.c", bench.scratch / "hide"
    source.write_text(_C)
    order = [compiler, "-static", "-pthread", "-w", "-o", str(program), str(source)]
    await asyncio.to_thread(subprocess.run, order, check=True, timeout=60)
    await put_file(bench.sandbox, f"{bench.workdir}/hide", program.read_bytes(), mode=0o755)
    return ("./hide",)
