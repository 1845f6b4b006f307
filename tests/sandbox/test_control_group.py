"""Control groups, for real: on this machine's hierarchies as they are, and on its versions 1 and 2 each alone."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.cgroups import Hierarchy, Mount
from seatrial.sandbox.control_group import ControlGroup, GroupDirectory, GroupUsage

# A member joins all by itself, says so, and becomes the program under test.
JOIN = 'for file in $JOIN_FILES; do echo 0 > "$file" || exit 99; done; echo joined; exec "$@"'
PYTHON = (sys.executable, "-I", "-S", "-c")
SLEEP = ("sleep", "1000")
WAIT_SEC = 20


def hierarchy_of(kind):
    mountinfo = Path("/proc/self/mountinfo").read_text()
    unwanted = {"here": " - no", "v1": " - cgroup2 ", "v2": " - cgroup "}[kind]
    kept = "".join(line for line in mountinfo.splitlines(keepends=True) if unwanted not in line)
    return Hierarchy.detect(kept, Path("/proc/self/cgroup").read_text())


class Run:
    """Groups of one run and the processes in them; both are gone when the test is over."""

    def __init__(self, kind) -> None:
        self.hierarchy: Hierarchy = hierarchy_of(kind)
        self.name = f"test-{os.getpid()}-{threading.get_ident()}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def group(self, name="group", **limits) -> ControlGroup:
        return self.hierarchy.create(self.name, name, LimitSpec(**limits))

    def start(self, group, *argv, join_files=None) -> "subprocess.Popen[bytes]":
        """A member that has joined."""
        env = {**os.environ, "JOIN_FILES": " ".join(join_files or group.join_files)}
        member = subprocess.Popen(["sh", "-c", JOIN, "sh", *argv], env=env, stdout=subprocess.PIPE, bufsize=0)
        self.processes.append(member)
        assert member.stdout is not None
        assert member.stdout.readline() == b"joined\n"
        return member

    def close(self):
        self.hierarchy.sweep(self.name)
        for process in self.processes:
            process.kill()
            process.wait(WAIT_SEC)
            assert process.stdout is not None
            process.stdout.close()
        for mount in self.hierarchy.mounts:
            assert not (mount.parents[0] / "seatrial" / self.name).exists()


def open_run(kind) -> Iterator[Run]:
    run = Run(kind)
    if not run.group("trial").directories:
        pytest.skip(f"no control groups of kind {kind!r} can be made here: run as root")
    yield run
    run.close()


@pytest.fixture
def run():
    yield from open_run("here")


@pytest.fixture(params=["v1", "v2"])
def each_version(request):
    yield from open_run(request.param)


def need(run, *limits):
    missing = {limit: why for limit, why in run.hierarchy.usable_limits().missing.items() if limit in limits}
    if missing:
        pytest.skip(str(missing))


def text_of(group, *files):
    """The first of the files that the group has, stripped."""
    paths = [each.path / file for file in files for each in group.directories]
    return next(path.read_text().strip() for path in paths if path.exists())


MEMORY_HOGS = {
    "heap": "bytearray(300 << 20)",
    "shared memory": "import os; f = os.memfd_create('x')\nfor _ in range(300): os.write(f, bytes(1 << 20))",
}


@pytest.mark.parametrize("hog", MEMORY_HOGS)
def test_too_much_memory_is_killed_and_counted(run, hog):
    need(run, "memory_mb")
    group = run.group(memory_mb=64)
    assert run.start(group, *PYTHON, MEMORY_HOGS[hog]).wait(WAIT_SEC) == -signal.SIGKILL
    usage = group.usage()
    assert usage.oom_kills is not None
    assert usage.oom_kills >= 1
    assert usage.peak_memory_bytes is None or 32 << 20 <= usage.peak_memory_bytes <= 65 << 20


def test_too_many_processes_are_refused_and_counted(run):
    need(run, "pids")
    group = run.group(pids=10)
    forks = """if 1:
        import os, signal
        for made in range(100):
            try:
                if not os.fork():
                    signal.pause()
            except BlockingIOError:
                os.write(1, b"%d\\n" % made)
                signal.pause()"""
    stdout = run.start(group, *PYTHON, forks).stdout
    assert stdout is not None
    assert stdout.readline() == b"9\n"
    assert group.usage().pids_refused == 1


def test_a_share_of_a_cpu_is_all_there_is(run):
    need(run, "cpus")
    group = run.group(cpus=0.05)
    assert text_of(group, "cpu.max", "cpu.cfs_quota_us") in {"5000 100000", "5000"}
    busy = "import time\nwhile time.process_time() < 0.04: pass"
    assert run.start(group, *PYTHON, busy).wait(WAIT_SEC) == 0
    words = " ".join((each.path / "cpu.stat").read_text() for each in group.directories if "cpu" in each.controllers)
    assert int(words.split("nr_throttled ")[1].split()[0]) > 0
    cpu_sec = group.usage().cpu_sec
    assert cpu_sec is not None
    assert 0.04 <= cpu_sec < 5


def test_more_cpus_than_our_own_group_has_are_no_error(run):
    need(run, "cpus")
    narrow = [each for each in run.group("narrow", cpus=0.05).directories if "cpu" in each.controllers]
    inner = Hierarchy(tuple(Mount(each.version, each.controllers, (each.path,)) for each in narrow))
    group = inner.create(run.name, "wide", LimitSpec(cpus=2.0))
    assert group.directories[0].path.is_relative_to(narrow[0].path)
    group.remove()


def test_every_limit_can_be_used_or_says_how_it_could(run):
    support = run.hierarchy.usable_limits()
    assert support.usable | support.missing.keys() == {"cpus", "memory_mb", "pids"}
    assert not support.usable & support.missing.keys()


def test_a_name_is_taken_once_and_a_refused_value_leaves_nothing(run):
    group = run.group("once")
    with pytest.raises(SandboxError, match="exists already"):
        run.group("once")
    group.remove()
    need(run, "pids")
    with pytest.raises(SandboxError, match=r"pids\.max refuses"):
        run.group("once", pids=2**40)
    run.group("once")


def test_a_frozen_group_stands_still_until_it_is_thawed(each_version):
    group = each_version.group()
    stdout = each_version.start(group, "sh", "-c", "while :; do echo; done").stdout
    for _ in range(3):
        assert stdout.read(1)
        group.freeze()
        os.set_blocking(stdout.fileno(), False)
        while stdout.read(1 << 16):
            pass
        assert select.select([stdout], [], [], 0.05)[0] == []
        group.thaw()
        assert select.select([stdout], [], [], WAIT_SEC)[0] == [stdout]
        os.set_blocking(stdout.fileno(), True)


FORK_LOOP = """if 1:
    import os, signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"looping\\n")
    while True:
        try:
            if os.fork() and os.getpid() % 8:
                os._exit(0)
        except BlockingIOError:
            pass"""


def test_killing_outruns_a_fork_loop_that_ignores_requests(each_version):
    outer = Run("here")
    need(outer, "pids")
    guard = outer.group("guard", pids=50)  # the machine must survive, also where the tested version limits nothing
    group = each_version.group(**dict.fromkeys(each_version.hierarchy.usable_limits().usable & {"pids"}, 50))
    try:
        joined = (*guard.join_files, *group.join_files)
        stdout = each_version.start(group, *PYTHON, FORK_LOOP, join_files=joined).stdout
        assert stdout.readline() == b"looping\n"
        group.kill()
        assert stdout.read() == b""  # nobody holds the other end any more
        group.remove()
    finally:
        guard.kill()
        guard.remove()


def test_a_group_can_be_removed_right_after_it_was_killed(each_version):
    for number in range(50):
        group = each_version.group(f"group-{number}")
        member = each_version.start(group, *SLEEP)
        if number % 2:
            group.freeze()
        group.kill()
        group.remove()
        assert member.wait(WAIT_SEC) == -signal.SIGKILL
        assert not any(each.path.exists() for each in group.directories)
    assert group.usage() == GroupUsage()
    group.remove()


def test_a_killed_group_takes_new_members_and_one_with_members_is_not_removed(each_version):
    group = each_version.group()
    each_version.start(group, *SLEEP)
    group.kill()
    member = each_version.start(group, *SLEEP)
    with pytest.raises(SandboxError):
        group.remove(timeout_sec=0.05)
    assert member.poll() is None


def test_a_group_knows_when_nobody_is_in_it_and_is_removed_at_once_then(each_version):
    group = each_version.group()
    assert group.empty
    member = each_version.start(group, *SLEEP)
    assert not group.empty
    assert not group.remove_at_once()
    assert group.members() == {member.pid}
    group.kill()
    member.wait(WAIT_SEC)
    assert group.empty
    assert group.remove_at_once()
    assert not any(each.path.exists() for each in group.directories)
    assert ControlGroup().remove_at_once()
    assert not ControlGroup().empty, "nobody can tell"
    assert not group.empty, "what cannot be read may have members"


def test_groups_of_one_run_come_and_go_at_the_same_time(each_version):
    def come_and_go(worker):
        for number in range(40):
            try:
                each_version.group(f"{worker}-{number}").remove()
            except (OSError, SandboxError) as error:
                problems.append(error)

    problems: list[Exception] = []
    each_version.hierarchy.sweep(each_version.name)
    threads = [threading.Thread(target=come_and_go, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SEC)
    assert problems == []


OWNER = """if 1:
    import os, subprocess, sys, pathlib
    from seatrial.sandbox.cgroups import Hierarchy, LimitSpec
    group = Hierarchy.here().create(sys.argv[1], "left-behind", LimitSpec())
    for each in group.directories:
        (each.path / "nested").mkdir()
    script = 'for file in "$@"; do echo 0 > "${file%/*}/nested/cgroup.procs"; done; echo orphan; exec sleep 1000'
    subprocess.run(["sh", "-c", script, "sh", *group.join_files])"""


def test_sweeping_ends_what_a_killed_run_left_behind_wherever_it_was_started(run):
    owner = run.start(run.group("elsewhere"), sys.executable, "-c", OWNER, f"{run.name}-swept")
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"orphan\n"
    owner.kill()
    owner.wait(WAIT_SEC)
    assert select.select([owner.stdout], [], [], 0)[0] == []  # the orphan lives on
    run.hierarchy.sweep(f"{run.name}-swept")
    assert owner.stdout.read() == b""
    assert not [top for mount in run.hierarchy.mounts for top, _, _ in os.walk(mount.parents[-1]) if "-swept" in top]
    run.hierarchy.sweep(f"{run.name}-swept")


AS_NOBODY = """if 1:
    import os
    from seatrial.sandbox.cgroups import Hierarchy, LimitSpec
    limits = LimitSpec()  # pydantic imports the rest of itself for it, which nobody else may be allowed to read
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    hierarchy = Hierarchy.here()
    print(hierarchy.create("run", "name", limits), *hierarchy.usable_limits().missing.values(), sep="\\n")"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_without_a_group_of_his_own_is_told_how_to_get_one():
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, check=True)
    group, *reasons = done.stdout.splitlines()
    assert group == "ControlGroup(directories=())"
    assert len(reasons) == 3
    assert all("systemd-run --user --scope -p Delegate=yes" in reason for reason in reasons)


PRESSURE = """some avg10=1.53 avg60=0.87 avg300=0.22 total=3788123
full avg10=0.00 avg60=0.00 avg300=0.00 total=75
"""


@pytest.mark.parametrize(
    ("files", "times"),
    [
        ({"cpu.stat": "usage_usec 2500000\nuser_usec 1\n", "cpu.pressure": PRESSURE}, (2.5, 3.788123)),
        ({"cpu.stat": "usage_usec 2500000\n"}, (2.5, None)),
        ({}, (None, None)),
    ],
)
def test_what_members_ran_and_for_how_long_they_waited(tmp_path, files, times):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    group = ControlGroup((GroupDirectory(tmp_path, tmp_path, 2, frozenset()),))
    assert group.processor_times() == times
