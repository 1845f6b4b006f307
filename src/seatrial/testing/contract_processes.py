"""The contract of processes: what runs beside and after a command, how all of it ends, and that nothing can hide."""
# ruff: noqa: S101 - assertions are what it is for

import asyncio
import shlex
import shutil
import subprocess

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.sandbox.api import AS_COPIED, Curation, SystemCopy
from seatrial.sandbox.process_names import NO_NAME, RESTLESS
from seatrial.sandbox.transfer import put_file
from seatrial.testing.contract_base import Bench, ContractBase, new_mark, scenario
from seatrial.testing.contract_network import FETCH, NO_CLIENT

# Prints its port and leaves a child behind that answers one request.
_SERVER = """
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
if os.fork() == 0:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 7\\r\\n\\r\\nservice")
"""


class ProcessContract(ContractBase):
    """Background processes, time-outs, cancellation and kill_all."""

    @scenario
    async def test_a_child_that_keeps_the_output_open_does_not_hold_up_the_result(self, bench: Bench) -> None:
        """A command has ended when its own process has."""
        result = await bench.sh("sleep 1000 & printf started")
        assert (result.exit_code, result.stdout) == (0, b"started")

    @scenario
    async def test_a_child_left_behind_can_go_on_writing(self, bench: Bench) -> None:
        """Its output is dropped, but it neither blocks nor dies of it."""
        await bench.ask("mkfifo go done")
        await bench.ask("{ read word <go; head -c 1000000 /dev/zero; echo $? >done; } &")
        assert await bench.ask("echo now >go; cat done") == "0"

    @scenario
    async def test_a_child_left_behind_lives_on_between_commands(self, bench: Bench) -> None:
        """Services an agent starts are there for the commands that follow."""
        await bench.ask("mkfifo question answer")
        await bench.ask('while read word <question; do echo "heard $word" >answer; done >/dev/null 2>&1 &')
        for word in ("one", "two"):
            assert await bench.ask(f"echo {word} >question; cat answer") == f"heard {word}"

    @scenario
    async def test_a_service_left_behind_answers_on_localhost(self, bench: Bench) -> None:
        """All commands of a sandbox share its loopback network."""
        if (await bench.sh("command -v python3")).exit_code != 0:
            pytest.skip("no python3 in this sandbox to write a server in")
        port = await bench.ask(f"python3 -c {shlex.quote(_SERVER)}")
        answer = await bench.sh(FETCH, env={"PORT": port})
        if answer.exit_code == NO_CLIENT:
            pytest.skip("no wget, nc or python3 in this sandbox to ask a server with")
        assert b"service" in answer.stdout

    @scenario
    async def test_commands_run_at_the_same_time(self, bench: Bench) -> None:
        """Each of these waits for another one, so one after the other would never end."""
        await bench.ask("mkfifo a b c")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(bench.ask("echo 1 >a; cat c"))
            group.create_task(bench.ask("read n <a; echo $n 2 >b"))
            group.create_task(bench.ask("read n <b; echo $n 3 >c"))
        assert first.result() == "1 2 3"

    @scenario
    async def test_at_the_end_of_its_time_a_command_ends_with_all_its_children(self, bench: Bench) -> None:
        """Whether they ignore TERM, hang up or have been orphaned."""
        stubborn = "trap '' TERM HUP; echo $$ >>pids; sleep 1000 & echo $! >>pids; wait"
        script = f"printf early; (sh -c {shlex.quote(stubborn)} &) & trap '' TERM; sleep 1000; true"
        mark = new_mark()
        result = await bench.sh(f"( {script} ) & wait; wait", timeout_sec=1.0, env={"MARK": mark})
        assert result.timed_out
        assert result.exit_code is None
        assert result.stdout == b"early"
        assert 0.9 < result.duration_sec < 30
        assert len((await bench.ask("cat pids")).split()) == 2
        assert self.leftovers(mark) == []

    @scenario
    async def test_a_cancelled_command_leaves_nothing(self, bench: Bench) -> None:
        """Whoever stops waiting for a command has stopped the command."""
        await bench.ask("mkfifo started")
        async with asyncio.TaskGroup() as group:
            mark = new_mark()
            running = group.create_task(bench.sh("echo x >started; sleep 1000; true", env={"MARK": mark}))
            await bench.ask("cat started")
            running.cancel()
        assert self.leftovers(mark) == []

    @scenario
    async def test_kill_all_ends_everything_and_the_sandbox_goes_on(self, bench: Bench) -> None:
        """Even what has a session of its own, and it is over when the call returns."""
        mark = new_mark()
        await bench.leave_running(mark)
        assert len(self.leftovers(mark)) >= 2
        await bench.sandbox.kill_all()
        assert self.leftovers(mark) == []
        assert await bench.ask("echo alive") == "alive"

    @scenario
    async def test_what_runs_on_is_listed(self, bench: Bench) -> None:
        """By its name, as long as it runs."""
        assert await bench.sandbox.processes() == ()
        await bench.ask("mkfifo started; (echo x >started; exec sleep 1000) >/dev/null 2>&1 & cat started")
        assert set(await bench.sandbox.processes()) <= {
            "sleep",
            "sh",
            "busybox",
            "exe",
        }  # busybox, before it has told its name
        assert await bench.sandbox.processes() != ()
        await bench.sandbox.kill_all()
        assert await bench.sandbox.processes() == ()

    @scenario
    async def test_kill_all_ends_a_running_command(self, bench: Bench) -> None:
        """Whoever waits for it hears of it as of any other kill."""
        await bench.ask("mkfifo started")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(bench.sh("echo x >started; sleep 1000; true"))
            await bench.ask("cat started")
            await bench.sandbox.kill_all()
        assert running.result().exit_code == -9


class PhaseContract(ContractBase):
    """What the verifier and the agent see of each other, where a backend can tell them apart."""

    @scenario
    async def test_the_verifier_sees_the_agent(self, bench: Bench) -> None:
        """Its files, and the processes it left running."""
        bench.need("guarded_phases", there=bench.capabilities.guarded_phases)
        mark = new_mark()
        await bench.ask(f"echo done >result; sh -c 'sleep 1000; : {mark}' >/dev/null 2>&1 &")
        assert await bench.ask("cat result", phase="verifier") == "done"
        assert await bench.ask(_find(mark), phase="verifier") != ""

    @scenario
    async def test_the_agent_sees_nothing_of_the_verifier(self, bench: Bench) -> None:
        """Neither its tests and results nor its processes, not even while it runs."""
        bench.need("guarded_phases", there=bench.capabilities.guarded_phases)
        mark = new_mark()
        await put_file(bench.sandbox, "/tests/secret", b"private\n", phase="verifier")
        await bench.ask("mkfifo started over")
        async with asyncio.TaskGroup() as group:
            script = f"cat /tests/secret; echo 1 >/logs/verifier/reward; echo x >started; cat over; : {mark}"
            judging = group.create_task(bench.ask(f"mkdir -p /logs/verifier; {script}", phase="verifier"))
            await bench.ask("cat started")
            spied = await bench.ask(f"{_find(mark)}; cat /tests/secret /logs/verifier/reward 2>/dev/null || true")
            await bench.ask("echo x >over")
        assert judging.result() == "private\nx"
        assert spied == ""
        for path in ("/tests/secret", "/logs/verifier/reward"):
            with pytest.raises(FileNotFoundError):
                await bench.get(path)

    @scenario
    async def test_every_verifier_starts_anew(self, bench: Bench) -> None:
        """Nothing of an earlier one is there any more, nor running; the agent's processes are."""
        bench.need("guarded_phases", there=bench.capabilities.guarded_phases)
        earlier, agents = new_mark(), new_mark()
        await bench.ask(f"sh -c 'sleep 1000; : {agents}' >/dev/null 2>&1 &")
        await put_file(bench.sandbox, "/tests/secret", b"private", phase="verifier")
        leave = f"echo 1 >/logs/verifier/reward; sh -c 'sleep 1000; : {earlier}' >/dev/null 2>&1 &"
        await bench.ask(leave, phase="verifier")
        await bench.sandbox.renew_verifier()
        look = "ls /tests /logs/verifier | grep -v : || true"
        assert (await bench.ask(look, phase="verifier")).strip() == ""
        assert await bench.ask(_find(earlier), phase="verifier") == ""
        assert await bench.ask(_find(agents), phase="verifier") != ""

    @scenario
    async def test_every_verifier_has_an_empty_temporary_folder_of_its_own(self, bench: Bench) -> None:
        """What is made there is nobody's change, and a TMPDIR of the task's counts."""
        for _ in range(2):
            await bench.sandbox.renew_verifier()
            before = await bench.ask('cd "$TMPDIR" && ls -A && pwd', phase="verifier")
            assert len(before.split()) == 1, "nothing but where it is"
            await bench.ask('cd "$(mktemp -d)" && echo x >made && ls "$TMPDIR"/*/made', phase="verifier")
        own = await bench.ask('echo "$TMPDIR"', phase="verifier", env={"TMPDIR": "/own"})
        assert own.strip() == "/own"
        if bench.capabilities.guarded_phases:
            assert await bench.ask(f"ls {before.strip()} 2>/dev/null || true") == ""
        assert not any(path.startswith(before.strip()) for path in (await bench.sandbox.changes()).added)

    @scenario
    async def test_a_system_of_the_verifier_s_own_is_out_of_the_agent_s_reach(self, bench: Bench) -> None:
        """It is as it was and the verifier's to change, while everything else is shared; until the next verifier."""
        bench.need("own_system", there=bench.capabilities.own_system)
        program = "/opt/program"
        if (await bench.sh(f"mkdir -p /opt && echo before >{program}")).exit_code != 0:
            pytest.skip("nobody can change the system in this sandbox")
        copies = []

        async def curate(copy: SystemCopy) -> Curation:
            copies.append(copy)
            return AS_COPIED

        await bench.sandbox.renew_verifier(curate)
        assert [copy.changes.added for copy in copies] == [(program,)]
        await bench.ask(f"echo after >{program}; echo after >shared")
        assert await bench.ask(f"cat {program} shared", phase="verifier") == "before\nafter"
        await bench.ask(f"echo own >{program}; echo own >shared", phase="verifier")
        assert await bench.ask(f"cat {program} shared") == "after\nown"
        await bench.sandbox.renew_verifier()
        assert await bench.ask(f"cat {program}", phase="verifier") == "after"

    @scenario
    async def test_what_is_taken_out_of_a_verifier_s_system_is_as_in_the_image(self, bench: Bench) -> None:
        """Added files are gone, changed and removed ones are the image's; what is hidden is not there."""
        bench.need("own_system", there=bench.capabilities.own_system)
        script = "mkdir -p /opt/own && echo x >/opt/own/added && echo x >/etc/hosts && echo x >hidden && echo x >shown"
        before = await bench.ask("cat /etc/hosts")
        if (await bench.sh(f"{script} && rm /etc/hostname")).exit_code != 0:
            pytest.skip("nobody can change the system in this sandbox")
        workdir = (await bench.ask("pwd")).strip()
        out = frozenset({"/opt/own/added", "/etc/hosts", "/etc/hostname"})

        async def curate(_: SystemCopy) -> Curation:
            return Curation(put_back=out, hidden=frozenset({f"{workdir}/hidden"}))

        await bench.sandbox.renew_verifier(curate)
        seen = await bench.ask("ls /opt/own; cat /etc/hosts; ls /etc/hostname; ls", phase="verifier")
        assert seen.split() == [*before.split(), "/etc/hostname", "shown"]
        assert (await bench.ask("cat /opt/own/added /etc/hosts hidden")).split() == ["x", "x", "x"]

    @scenario
    async def test_a_system_of_the_verifier_s_own_that_cannot_be_had_is_refused(self, bench: Bench) -> None:
        """Whoever asks for it must not believe that it is there."""
        if bench.capabilities.own_system:
            pytest.skip("this backend can give the verifier a system of its own")

        async def curate(_: SystemCopy) -> Curation:
            return AS_COPIED

        with pytest.raises(HostUnsupportedError):
            await bench.sandbox.renew_verifier(curate)

    @scenario
    async def test_kill_all_of_the_agent_spares_the_verifier(self, bench: Bench) -> None:
        """The agent's leftovers can be ended while the verifier runs."""
        bench.need("guarded_phases", there=bench.capabilities.guarded_phases)
        await bench.ask("mkfifo started over")
        async with asyncio.TaskGroup() as group:
            judging = group.create_task(bench.ask("echo x >started; cat over", phase="verifier"))
            await bench.ask("cat started")
            await bench.sandbox.kill_all("agent")
            await bench.ask("echo judged >over")
        assert judging.result() == "judged"


def _find(mark: str) -> str:
    """A script that prints the numbers of processes with a mark in their command line, but for its own."""
    return f"grep -l '[{mark[0]}]{mark[1:]}' /proc/[0-9]*/cmdline 2>/dev/null || true"


# Processes that hide: by python3 where the sandbox has it; else a program is compiled here and copied

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
