"""When a file system counts as full."""

import errno
import os
from pathlib import Path

import pytest

from seatrial.sandbox.host.disks import Disk, mount_point, raise_if_full, spare_bytes

MIB = 2**20


def file_system(free, size=1024 * MIB, inodes=10**6, all_inodes=10**6):
    return os.statvfs_result((4096, 4096, size // 4096, free // 4096, free // 4096, all_inodes, inodes, inodes, 0, 255))


@pytest.fixture
def disk(monkeypatch, tmp_path):
    found = Disk(tmp_path)

    def read(*values, **named):
        monkeypatch.setattr(os, "fstatvfs", lambda _: file_system(*values, **named))
        return found.read()

    yield read
    found.close()


@pytest.mark.parametrize(
    ("free", "size", "short"), [(65, 1024, False), (63, 1024, True), (5, 64, False), (3, 64, True)]
)
def test_little_room_is_a_shortage_and_small_file_systems_need_less(disk, free, size, short):
    assert bool(disk(free * MIB, size=size * MIB)) is short


def test_the_message_names_the_mount_point_and_what_is_left(disk, tmp_path):
    found = disk(MIB)
    assert found.message == f"the file system at {mount_point(tmp_path)} is full (1.0 MiB free of 1.0 GiB)"
    assert (found.resource, found.capacity) == ("disk", 1024 * MIB)


def test_inodes_count_where_they_are_counted(disk):
    assert disk(512 * MIB, inodes=3).resource == "inodes"
    assert disk(512 * MIB, inodes=0, all_inodes=0) is None


def test_after_a_shortage_there_must_be_twice_as_much(disk):
    assert disk(63 * MIB)
    assert disk(100 * MIB)
    assert disk(129 * MIB) is None
    assert disk(100 * MIB) is None


def test_it_is_looked_at_again_before_it_can_be_full(disk, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fstatvfs", lambda _: file_system(512 * MIB))
    found = Disk(tmp_path)
    found.read()
    assert 0.2 < found.lasts_sec() < 0.3
    found.close()


def test_a_mount_point_is_the_deepest_on_the_way(tmp_path):
    assert mount_point(Path("/proc/self/fd")) == Path("/proc")
    assert tmp_path.is_relative_to(mount_point(tmp_path))


def test_our_own_copies_leave_room_for_others(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "statvfs", lambda _: file_system(200 * MIB))
    assert spare_bytes(tmp_path / "not" / "yet") == 72 * MIB
    monkeypatch.setattr(os, "statvfs", lambda _: file_system(10 * MIB))
    assert spare_bytes(tmp_path) == 0


def test_a_full_disk_is_taken_for_nothing_else():
    with pytest.raises(OSError, match="No space"):
        raise_if_full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    raise_if_full(OSError(errno.ENAMETOOLONG, "too long"))
    raise_if_full(ValueError())
