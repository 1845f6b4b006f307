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
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import HostUnsupportedError, SandboxError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.embedded.cgroups import LEAF, ControlGroup, GroupUsage, Hierarchy, Mount, limit_values

# A member joins all by itself, says so, and becomes the program under test.
JOIN = 'for file in $JOIN_FILES; do echo 0 > "$file" || exit 99; done; echo joined; exec "$@"'
PYTHON = (sys.executable, "-I", "-S", "-c")
SLEEP = ("sleep", "1000")
WAIT_SEC = 20

V1 = """\
31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/memory rw,relatime shared:10 master:2 - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
35 31 0:32 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
"""
V1_OWN = "9:name=systemd:/user.slice\n4:memory:/a/b\n3:cpu,cpuacct:/\n2:freezer:/\n1:pids:/user.slice/x:y\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID_V2 = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"


def places(mountinfo, own, root="/"):
    """Each hierarchy as (version, controllers, directories to try)."""
    return [
        (mount.version, " ".join(sorted(mount.controllers)), [str(parent) for parent in mount.parents])
        for mount in Hierarchy.detect(mountinfo, own, root).mounts
    ]


def test_detects_version_1_with_the_own_group_before_the_top():
    cgroup = "/sys/fs/cgroup"
    assert places(V1, V1_OWN) == [
        (1, "cpu cpuacct", [f"{cgroup}/cpu,cpuacct"]),
        (1, "freezer", [f"{cgroup}/freezer"]),
        (1, "memory", [f"{cgroup}/memory/a/b", f"{cgroup}/memory"]),
        (1, "pids", [f"{cgroup}/pids/user.slice/x:y", f"{cgroup}/pids"]),
    ]


def test_detects_version_2_and_steps_out_of_the_leaf_it_once_moved_to():
    expected = [(2, "cpu memory pids", ["/sys/fs/cgroup/user.slice/s.scope", "/sys/fs/cgroup"])]
    assert places(V2, "0::/user.slice/s.scope\n") == expected
    assert places(V2, f"0::/user.slice/s.scope/{LEAF}\n") == expected


def test_detects_a_hybrid_with_version_2_first_and_each_controller_once():
    found = places(V1 + HYBRID_V2, V1_OWN.replace("1:pids:/user.slice/x:y\n", "") + "0::/me\n")
    assert found[0] == (2, "pids", ["/sys/fs/cgroup/unified/me", "/sys/fs/cgroup/unified"])
    assert [version for version, _, _ in found] == [2, 1, 1, 1, 1]


def test_detects_nothing_where_nothing_is_mounted():
    assert places("22 27 0:21 / /proc rw,relatime - proc proc rw\n", "0::/\n") == []
    assert places("", "") == []


@pytest.mark.parametrize(
    ("top", "own", "expected"),
    [
        ("/docker/abc", "/docker/abc", ["/c"]),
        ("/docker/abc", "/docker/abc/in", ["/c/in", "/c"]),
        ("/docker/abc", "/docker/abcd", ["/c"]),
        ("/docker/abc", "/", ["/c"]),
        ("/", "/../../elsewhere", ["/c"]),
        ("/../..", "/", ["/c"]),
    ],
)
def test_a_container_sees_its_own_group_only_through_its_mount(top, own, expected):
    assert places(f"5 4 0:9 {top} /c rw - cgroup cgroup rw,memory", f"4:memory:{own}")[0][2] == expected


def test_the_first_of_several_mounts_counts_and_odd_mount_points_are_decoded():
    mountinfo = "5 4 0:9 / /with\\040space rw - cgroup2 none rw\n" + V2
    assert places(mountinfo, "0::/", "/chroot") == [(2, "cpu memory pids", ["/chroot/with space"])]


@given(st.text(alphabet=st.sampled_from("019 -:/.,\\\ncgroup2memrywx"), max_size=200), st.text(max_size=60))
def test_detection_survives_any_text_and_never_leaves_the_root(text, path):
    line = f"5 4 0:9 / /sys/{text} rw - cgroup2 cgroup2 rw\n"
    for mount in Hierarchy.detect(text + line, f"0::/{path}\n{text}", "/r").mounts:
        inside = mount.parents[0].relative_to(mount.parents[-1])
        assert mount.parents[-1].is_relative_to("/r")
        assert ".." not in inside.parts


def test_limits_become_the_values_of_either_version():
    limits = LimitSpec(cpus=0.25, memory_mb=3, pids=7, storage_mb=9)
    memory = str(3 * 2**20)
    assert limit_values(limits, 1) == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "25000",
        "memory.limit_in_bytes": memory,
        "memory.memsw.limit_in_bytes": memory,
        "pids.max": "7",
    }
    assert limit_values(limits, 2) == {
        "cpu.max": "25000 100000",
        "memory.max": memory,
        "memory.swap.max": "0",
        "pids.max": "7",
    }
    assert limit_values(LimitSpec(), 1) == limit_values(LimitSpec(), 2) == {}


def test_without_any_hierarchy_a_limit_is_refused_with_the_fix_and_no_limit_is_fine():
    with pytest.raises(HostUnsupportedError, match=r"memory_mb cannot be limited: .*mount -t cgroup2"):
        Hierarchy().create("run", "name", LimitSpec(memory_mb=64))
    group = Hierarchy().create("run", "name", LimitSpec(storage_mb=5))
    assert (group.join_files, group.usage()) == ((), GroupUsage())
    for harmless in (group.thaw, group.kill, group.remove, group.remove):
        harmless()
    with pytest.raises(HostUnsupportedError, match="frozen"):
        group.freeze()


def test_a_controller_that_is_not_delegated_is_named_with_the_command_that_delegates_it(tmp_path):
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu pids\n")
    (group / "cgroup.subtree_control").write_text("cpu pids\n")
    missing = Hierarchy.detect(V2, "0::/\n", str(tmp_path)).usable_limits().missing
    assert "no memory controller" in missing["memory_mb"]
    assert "systemd-run --user --scope -p Delegate=yes" in missing["memory_mb"]
    assert sorted(path.name for path in group.iterdir()) == ["cgroup.controllers", "cgroup.subtree_control"]


def test_a_hierarchy_hidden_under_another_file_system_is_not_mistaken_for_one(tmp_path):
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    hidden = Hierarchy.detect(V1, "4:memory:/\n", str(tmp_path))
    with pytest.raises(HostUnsupportedError, match="another file system is mounted over"):
        hidden.create("run", "name", LimitSpec(memory_mb=1))
    assert hidden.create("run", "name", LimitSpec()) == ControlGroup()
    assert list(tmp_path.glob("**/seatrial")) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "*", "cgroup.procs", "x" * 101])
def test_odd_names_are_refused(name):
    for refused in (lambda: Hierarchy().create("run", name, LimitSpec()), lambda: Hierarchy().sweep(name)):
        with pytest.raises(UsageError, match="cannot name a control group"):
            refused()


@pytest.mark.parametrize(
    "limits", [LimitSpec(cpus=0.0), LimitSpec(cpus=0.001), LimitSpec(memory_mb=0), LimitSpec(pids=0)]
)
def test_limits_that_leave_nothing_are_refused(limits):
    with pytest.raises(UsageError, match="leaves nothing to run with"):
        Hierarchy().create("run", "name", limits)


# ---------------------------------------------------------------------------------------------- on the real machine


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
        group.remove(patience=0.05)
    assert member.poll() is None


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
    from seatrial.sandbox.embedded.cgroups import Hierarchy, LimitSpec
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
    from seatrial.sandbox.embedded.cgroups import Hierarchy, LimitSpec
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    hierarchy = Hierarchy.here()
    print(hierarchy.create("run", "name", LimitSpec()), *hierarchy.usable_limits().missing.values(), sep="\\n")"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_without_a_group_of_his_own_is_told_how_to_get_one():
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, check=True)
    group, *reasons = done.stdout.splitlines()
    assert group == "ControlGroup(directories=())"
    assert len(reasons) == 3
    assert all("systemd-run --user --scope -p Delegate=yes" in reason for reason in reasons)
