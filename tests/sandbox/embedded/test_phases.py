"""The verifier sees all the agent left behind; nothing the agent left behind sees, touches or outwits the verifier."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from seatrial.sandbox.api import Curation, ExecResult, Phase, Sandbox, SandboxSpec, SystemCopy, open_sandbox
from seatrial.sandbox.transfer import get_file, put_file
from seatrial.testing.contract import new_mark
from tests.conftest import sampled
from tests.programs import needs_program
from tests.sandbox.embedded.support import ask, in_both_modes, needs_python, needs_root, python, run, shell

pytestmark = [needs_root, needs_python, in_both_modes]

# Left behind by the agent: spies until it is told to stop, and writes down whatever it found.
SPY = """
import glob, json, os, sys
mark, found = sys.argv[1], set()
own = {int(name) for name in os.listdir("/proc") if name.isdigit()}
def attempt(what, action, *arguments):
    try:
        result = action(*arguments)
    except OSError:
        return
    if result not in (None, -1, b"", []):
        found.add(f"{what}: {result!r}"[:200])
def read(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
def signal_it(pid):
    os.kill(pid, 0)
    return "can be signalled"
def open_memory(pid):
    os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))
    return "can be changed"
if os.fork():
    os._exit(0)
os.setsid()
open("/app/spying", "w").write("x")
stop = False
while not stop:
    stop = os.path.exists("/app/stop")
    for path in ("/tests/secret", "/tests/test.sh", "/logs/verifier/reward.txt", "/logs/verifier/log"):
        attempt(path, read, path)
    for pattern in ("root/tests/*", "root/logs/verifier/*", "cwd/secret", "cwd/reward.txt", "fd/*"):
        for path in glob.glob(f"/proc/[0-9]*/{pattern}"):
            if path.startswith(f"/proc/{os.getpid()}/"):
                continue
            attempt(path, read, path)
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            attempt(f"process {name}", lambda: mark if mark in read(f"/proc/{name}/cmdline").decode() else None)
            attempt(f"environment {name}", lambda: mark if mark in read(f"/proc/{name}/environ").decode() else None)
    for pid in range(2, 200):
        if pid not in own and pid != os.getpid():
            attempt(f"signal {pid}", signal_it, pid)
            attempt(f"memory {pid}", open_memory, pid)
    for name in os.listdir("/dev/pts"):
        if name.isdigit():
            attempt(f"terminal {name}", read, f"/dev/pts/{name}")
    for folder in ("/tests", "/logs/verifier"):
        attempt(folder, os.listdir, folder)
json.dump(sorted(found), open("/app/spied.json", "w"))
open("/app/done", "w").write("x")
"""
# What a judge does: reads its test, waits until it has been looked for thoroughly, and writes its reward.
JUDGE = """
cd /tests; exec 7<secret 9>/logs/verifier/log; echo judging >&9
cat /tests/secret >/dev/null; echo 0 >/logs/verifier/reward.txt; touch /app/judging
cat /app/enough
ls /tests; cat /tests/secret /logs/verifier/reward.txt
"""
# Each is done by the agent before the verifier starts, to have a word in what the verifier sees.
TRAPS = {
    "tests of its own": "mkdir /tests; echo forged >/tests/test.sh; echo forged >/tests/secret",
    "tests as a link": "mkdir /tmp/mine; echo forged >/tmp/mine/secret; ln -s /tmp/mine /tests",
    "tests as a file": "echo forged >/tests",
    "tests as a pipe": "mkfifo /tests",
    "logs as a link": "rm -rf /logs; mkdir -p /tmp/mine/verifier; ln -s /tmp/mine /logs",
    "logs as a file": "rm -rf /logs; echo forged >/logs",
    "no logs at all": "rm -rf /logs",
    "logs of its own": "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt; chmod 000 /logs/verifier",
    "verifier's logs as a link": "rm -rf /logs/verifier; mkdir /tmp/mine; ln -s /tmp/mine /logs/verifier",
    "verifier's logs as a link out": "ln -s /proc/self/root/tmp /logs/verifier",
    "no shared folders": "rm -rf /logs/agent /logs/artifacts /app; ln -s / /app",
    "a name of ours": "mkdir '/logs/verifier ' /tests. /TESTS; touch /logs/verifier.txt",
}


async def stage(sandbox: Sandbox) -> None:
    """What every trial does before its verifier runs."""
    await put_file(sandbox, "/tests/secret", b"what was staged\n", phase="verifier")
    await put_file(sandbox, "/tests/test.sh", b"echo 0 >/logs/verifier/reward.txt\n", mode=0o755, phase="verifier")


async def judge(sandbox: Sandbox, **changes) -> ExecResult:
    script = "cat /tests/secret; ls /tests; sh /tests/test.sh; cat /logs/verifier/reward.txt"
    return await sandbox.exec(shell(script, phase="verifier", cwd="/", **changes))


async def appears(sandbox: Sandbox, path: str) -> None:
    """Wait for a file, by a way that nobody inside can see."""
    while True:
        try:
            await get_file(sandbox, path, limit=100)
        except FileNotFoundError:
            continue
        return


def play(mode, scene: Callable[[Sandbox], Awaitable[None]]) -> None:
    async def work(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await scene(sandbox)

    run(work, mode)


@needs_program("pgrep", "procps")
def test_the_verifier_finds_the_agent_s_processes_by_the_usual_means(mode):
    async def scene(sandbox):
        mark = new_mark()
        await ask(sandbox, shell(f"sh -c 'sleep 1000; : {mark}' >/dev/null 2>&1 &"))
        (pid,) = (await ask(sandbox, shell(f"pgrep -f '[m]{mark[1:]}'", phase="verifier"))).split()
        assert mark in await ask(sandbox, shell("ps -ef", phase="verifier"))
        assert mark in await ask(sandbox, shell(f"tr '\\0' ' ' </proc/{pid}/cmdline", phase="verifier"))
        assert await ask(sandbox, shell(f"kill {pid}; echo $?", phase="verifier")) == "0"

    play(mode, scene)


def test_the_first_commands_of_an_agent_have_its_own_proc_however_many_start_at_once(mode):
    look = python("import os; print(os.readlink('/proc/self') == str(os.getpid()))")

    async def scene(sandbox):
        assert await sandbox.processes() == ()
        for _ in range(2):
            assert set(await asyncio.gather(*(ask(sandbox, look) for _ in range(6)))) == {"True"}
            await sandbox.kill_all()

    play(mode, scene)


def test_our_own_processes_are_nobody_s_python(mode):
    look = "cat /proc/1/comm; cut -c 1-9 /proc/1/cmdline; grep -l '[p]ython' /proc/[0-9]*/cmdline || true"

    async def scene(sandbox):
        for phase in ("agent", "verifier"):
            assert await ask(sandbox, shell(look, phase=phase)) == "init\ninit run-"

    play(mode, scene)


def test_the_verifier_talks_to_the_agent_s_service(mode):
    server = """if 1:
        import os, socket
        listener = socket.create_server(("127.0.0.1", 80))
        if os.fork() == 0:
            os.setsid()
            while True:
                client, _ = listener.accept()
                client.sendall(b"hello")
                client.close()
    """
    client = "import socket; print(socket.create_connection(('localhost', 80)).recv(5).decode())"

    async def scene(sandbox):
        await ask(sandbox, python(server))
        assert await ask(sandbox, python(client, phase="verifier")) == "hello"
        await sandbox.kill_all("agent")
        assert (await sandbox.exec(python(client, phase="verifier"))).exit_code == 1

    play(mode, scene)


async def spy_on_a_judge(sandbox: Sandbox, phase: Phase) -> tuple[str, list[str]]:
    """What the judge of a phase says, and what a spy of the agent has found meanwhile."""
    mark = new_mark()
    await ask(sandbox, shell("mkfifo /app/enough; mkdir -p /tests /logs/verifier"))
    await ask(sandbox, python(SPY, mark))
    await appears(sandbox, "/app/spying")
    await put_file(sandbox, "/tests/secret", b"what was staged\n", phase=phase)
    async with asyncio.TaskGroup() as group:
        judging = group.create_task(ask(sandbox, shell(f"{JUDGE} : {mark}", phase=phase, env={"MARK": mark})))
        await appears(sandbox, "/app/judging")
        await put_file(sandbox, "/app/stop", b"")
        await appears(sandbox, "/app/done")
        await ask(sandbox, shell("echo >/app/enough"))
    return judging.result(), json.loads(await get_file(sandbox, "/app/spied.json", limit=10**6))


def test_a_spy_left_behind_finds_nothing_of_the_verifier(mode):
    async def scene(sandbox):
        said, found = await spy_on_a_judge(sandbox, "verifier")
        assert said == "secret\nwhat was staged\n0"
        assert found == []
        assert await get_file(sandbox, "/logs/verifier/reward.txt", limit=9, phase="verifier") == b"0\n"

    play(mode, scene)


def test_the_same_spy_finds_whatever_is_not_guarded(mode):
    """Else the test above would say nothing."""

    async def scene(sandbox):
        _, found = await spy_on_a_judge(sandbox, "agent")
        assert {entry.split()[0].strip(":") for entry in found} >= {
            "process",
            "environment",
            "memory",
            "signal",
            "/tests/secret",
        }

    play(mode, scene)


@pytest.mark.parametrize("trap", sampled(TRAPS))
def test_a_trap_set_beforehand_changes_nothing(mode, trap):
    async def scene(sandbox):
        await ask(sandbox, shell(TRAPS[trap], cwd="/"))
        await stage(sandbox)
        result = await judge(sandbox)
        assert result.stdout == b"what was staged\nsecret\ntest.sh\n0\n", result
        assert await get_file(sandbox, "/logs/verifier/reward.txt", limit=9, phase="verifier") == b"0\n"
        leaked = await ask(
            sandbox, shell("cat /tests/secret /logs/verifier/reward.txt /tmp/mine/* 2>/dev/null; true", cwd="/")
        )
        assert "staged" not in leaked
        assert "0" not in leaked.split()

    play(mode, scene)


def test_taking_folders_away_while_the_verifier_runs_changes_nothing(mode):
    """In the agent's own view nothing of the verifier is there to be taken away."""
    thief = """if 1:
        import os, shutil
        for path in ("/tests", "/logs/verifier", "/logs"):
            shutil.rmtree(path, ignore_errors=True)
            try:
                os.rename(path, path + "-away")
            except OSError:
                pass
            os.makedirs(path, exist_ok=True)
        forged = {"/tests/secret": "forged", "/tests/test.sh": "echo 1", "/logs/verifier/reward.txt": "1"}
        for name, text in forged.items():
            os.makedirs(os.path.dirname(name), exist_ok=True)
            open(name, "w").write(text)
    """

    async def scene(sandbox):
        await stage(sandbox)
        await ask(sandbox, shell("mkfifo go"))
        async with asyncio.TaskGroup() as group:
            script = "echo 0 >/logs/verifier/reward.txt; cat /app/go; cat /tests/secret /logs/verifier/reward.txt"
            judging = group.create_task(ask(sandbox, shell(script, phase="verifier")))
            await ask(sandbox, python(thief))
            await ask(sandbox, shell("echo robbed >/app/go"))
        assert judging.result() == "robbed\nwhat was staged\n0"
        assert (await judge(sandbox)).stdout == b"what was staged\nsecret\ntest.sh\n0\n"

    play(mode, scene)


def test_a_terminal_of_the_verifier_is_its_own(mode):
    """What it drives through a terminal can be neither read nor answered by anybody else."""
    judge_by_terminal = """if 1:
        import os, pty, tty
        master, terminal = pty.openpty()
        tty.setraw(terminal)
        open("/app/name", "w").write(os.ttyname(terminal))
        open("/app/go").read()
        os.set_blocking(master, False)
        try:
            print("forged", os.read(master, 100))
        except BlockingIOError:
            print("untouched")
    """

    async def scene(sandbox):
        await ask(sandbox, shell("mkfifo go"))
        async with asyncio.TaskGroup() as group:
            judging = group.create_task(ask(sandbox, python(judge_by_terminal, phase="verifier")))
            await ask(sandbox, shell("until [ -s name ]; do :; done; echo PASSED >$(cat name) || true; echo >go"))
        assert judging.result() == "untouched"

    play(mode, scene)


def test_shared_memory_and_messages_of_the_verifier_are_its_own(mode):
    make = "import os; open('/dev/shm/secret', 'w').write('x')"
    queue = "ipcmk -Q -p 666 >/dev/null; ipcs -q | grep -c 666"

    async def scene(sandbox):
        await ask(sandbox, python(make, phase="verifier"))
        assert await ask(sandbox, shell("ls /dev/shm")) == ""
        if (await sandbox.exec(shell("command -v ipcmk ipcs"))).exit_code == 0:
            assert await ask(sandbox, shell(queue, phase="verifier")) == "1"
            assert (await sandbox.exec(shell("ipcs -q | grep -c 666"))).stdout == b"0\n"

    play(mode, scene)


def test_puts_at_the_same_time_share_one_view(mode):
    async def scene(sandbox):
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(put_file(sandbox, f"/tests/{number}", b"x", phase="verifier"))
        assert await ask(sandbox, shell("ls /tests | tr -d '\\n'", phase="verifier")) == "01234567"

    play(mode, scene)


async def keep_all(_: SystemCopy) -> Curation:
    return Curation()


LIST = "cd /solution; find . | sort; stat -c '%a %u:%g %n' . sub sub/run; cat sub/run; readlink link"
MAKE = """mkdir -p /solution/sub; cd /solution; echo echo it > sub/run; chown 7:8 sub sub/run; chmod 4750 sub/run
chmod 750 .; ln -s /etc/hostname link; ln -s / slash; echo odd > "$(printf 'a\\nb')"\n"""


@pytest.mark.parametrize("system", sampled(["live", "copied"]))
def test_what_an_oracle_brought_can_be_removed_by_the_verifier(mode, system):
    """Where a folder is mounted, `rm -rf` fails; it is the same folder otherwise, and the agent's stays."""

    async def work(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell(MAKE))
            theirs = await ask(sandbox, shell(LIST))
            await sandbox.renew_verifier(keep_all if system == "copied" else None)
            ours = await ask(sandbox, shell(LIST, phase="verifier"))
            await ask(sandbox, shell("rm -rf /solution && ! ls /solution", phase="verifier"))
            return theirs, ours, await ask(sandbox, shell(LIST))

    theirs, ours, after = run(work, mode)
    assert theirs == ours == after
    assert "4750 7:8 sub/run" in ours


@pytest.mark.parametrize(
    "hostile",
    sampled(
        [
            "ln -s /app /solution",
            "echo file > /solution",
            "mkdir /solution; head -c 20000000 /dev/zero > /solution/large",
            "mkdir /solution; cd /solution; for n in $(seq 300); do mkdir d; cd d; done",
            "mkdir /solution; mkfifo /solution/pipe",
        ]
    ),
)
def test_whatever_an_agent_calls_solution_the_verifier_works(mode, hostile):
    async def work(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell(hostile))
            return await ask(sandbox, shell("ls -d /solution; ls -R /solution", phase="verifier"))

    assert run(work, mode).split()[0] == "/solution"


def test_work_in_a_folder_of_that_name_is_shared(mode):
    async def work(backend):
        async with open_sandbox(backend, SandboxSpec(workdir="/solution/inner")) as sandbox:
            await ask(sandbox, shell("echo first > state"))
            await ask(sandbox, shell("cat state", phase="verifier"))
            await ask(sandbox, shell("echo second > state"))
            return await ask(sandbox, shell("cat state", phase="verifier"))

    assert run(work, mode) == "second"
