"""Where control groups can be made, from recorded texts; what is refused, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.cgroups import LEAF, Hierarchy, limit_values
from seatrial.sandbox.control_group import ControlGroup, GroupUsage

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
