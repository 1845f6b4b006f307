"""Processes and memory that run out beside honest trials."""

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.everybody import python_for_everybody
from tests.faults.crowds import assert_fair, assert_own_doing, command, python_solution, run, write_crowd
from tests.faults.places import control_group

HONEST = 2
# It holds on to as many processes as it can get for some seconds, and ends by itself.
BOMB = python_solution("""
import os, time
time.sleep(0.3)
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        time.sleep(0.01)
""")
EATER = python_solution("""
import time
time.sleep(0.3)
eaten = [bytearray(4 << 20) for _ in range(120)]
""")
MIB = 2**20


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "SEATRIAL_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("controller", "limit", "greedy"), [("pids", 120, BOMB), ("memory", 280 * MIB, EATER)], ids=["processes", "memory"]
)
def test_one_trial_that_takes_all_of_our_control_group(tmp_path, state, controller, limit, greedy):
    tasks = write_crowd(tmp_path / "tasks", HONEST, greedy=greedy)
    with control_group(controller, limit) as inside:
        run([*inside, *command(tasks, tmp_path / "job")], state)
    others = assert_fair(tmp_path / "job", HONEST)
    assert_own_doing(others["greedy"])


@pytest.mark.whole
def test_one_trial_that_takes_all_processes_of_an_ordinary_user(tmp_path, state):
    user = _unused_user()
    place = tmp_path / "place"
    place.mkdir()
    tasks = write_crowd(place / "tasks", HONEST, greedy=BOMB)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    python = python_for_everybody(tmp_path)
    subprocess.run(["chown", "-R", str(user), str(place)], check=True)
    as_user = ["prlimit", "--nproc=120", "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    arguments = [*command(tasks, place / "job", python), "--allow-partial-limits"]
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CACHE_HOME"), str(place))
    env = {**state, **places, "SEATRIAL_STATE_DIR": str(place / "state")}
    run([*as_user, *arguments], env)
    others = assert_fair(place / "job", HONEST)
    assert_own_doing(others["greedy"])


def _unused_user() -> int:
    """A user who has a name and runs nothing, so that nothing of others counts."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("prlimit"):
        pytest.skip("only root can become an ordinary user, by setpriv and prlimit of util-linux")
    busy = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            busy.add(Path(f"/proc/{pid}").stat().st_uid)
    free = [entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid not in busy]
    if not free:
        pytest.skip("every user of this machine runs something")
    return free[-1]
