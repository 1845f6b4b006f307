"""Folders between machines: the same at the other end, and nothing outside of it whatever an archive says."""

import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
import zstandard

from seatrial.errors import SandboxError
from seatrial.jobs.ray.archives import LITTLE_BYTES, holds_little, pack_files, pack_folder, unpack_archive


def archive_of(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return io.BytesIO(zstandard.compress(plain.getvalue()))


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o4755
    return info


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "agent" / "empty").mkdir(parents=True)
    (root / "agent" / "stdout.txt").write_bytes(b"x" * 3_000_000)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("/etc/hostname")
    os.mkfifo(root / "pipe")
    return root


def unpacked(archive: io.BytesIO, tmp_path: Path, **limits: int) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    unpack_archive(archive, target, **limits)
    return target


def test_a_folder_arrives_as_it_was(source, tmp_path):
    archive = io.BytesIO()
    content = pack_folder(source, archive)
    archive.seek(0)
    target = unpacked(archive, tmp_path, max_bytes=content)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "agent",
        "agent/empty",
        "agent/stdout.txt",
        "link",
        "run.sh",
    ]
    assert (target / "agent" / "stdout.txt").read_bytes() == b"x" * 3_000_000
    assert (target / "link").readlink() == Path("/etc/hostname")
    assert (target / "run.sh").stat().st_mode & 0o7777 == 0o755


def test_chosen_files_arrive_with_their_folders(source, tmp_path):
    archive = io.BytesIO()
    pack_files(source, ["agent/stdout.txt", "link"], archive)
    archive.seek(0)
    target = unpacked(archive, tmp_path)
    assert sorted(path.name for path in target.iterdir()) == ["agent", "link"]


@pytest.mark.parametrize(
    "members",
    [
        [(member("../out"), b"x")],
        [(member("/srv/out"), b"x")],
        [(member("pipe", tarfile.FIFOTYPE), b"")],
        [(member("hard", tarfile.LNKTYPE, "run.sh"), b"")],
        [(member("way", tarfile.SYMTYPE, ".."), b""), (member("way/out"), b"x")],
        [(member("twice"), b"x"), (member("twice"), b"x")],
    ],
    ids=["parent", "absolute", "pipe", "hard link", "through a link", "twice"],
)
def test_an_archive_of_a_stranger_leads_nowhere(members, tmp_path):
    with pytest.raises(SandboxError):
        unpacked(archive_of(*members), tmp_path)
    assert not (tmp_path / "out").exists()


def test_no_special_mode_arrives(tmp_path):
    target = unpacked(archive_of((member("tool"), b"x")), tmp_path)
    assert (target / "tool").stat().st_mode & 0o7777 == 0o755
    assert (target / "tool").stat().st_uid == os.geteuid()


def test_more_than_was_announced_is_refused(tmp_path):
    with pytest.raises(SandboxError, match="more than 10,000 bytes"):
        unpacked(archive_of((member("bomb"), bytes(10**6))), tmp_path, max_bytes=10_000)


def test_a_broken_archive_is_no_bug_of_ours(source, tmp_path):
    archive = io.BytesIO()
    pack_folder(source, archive)
    with pytest.raises(SandboxError, match=r"cannot be unpacked|ends after"):
        unpacked(io.BytesIO(archive.getvalue()[:-20]), tmp_path)


@pytest.mark.parametrize(
    ("files", "size", "little"), [(0, 0, True), (50, 1000, True), (51, 1, False), (2, LITTLE_BYTES // 2 + 1, False)]
)
def test_what_is_little_is_few_and_small(tmp_path, files, size, little):
    for number in range(files):
        (tmp_path / f"{number % 3}").mkdir(exist_ok=True)
        (tmp_path / f"{number % 3}" / f"{number}.txt").write_bytes(bytes(size))
    assert holds_little(tmp_path) is little


def test_a_folder_may_be_as_deep_as_a_sandbox_allows_and_a_little_deeper(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    deepest = source / "artifacts/logs" / "/".join(["d"] * 200)
    deepest.mkdir(parents=True)
    (deepest / "f").write_text("x")
    target.mkdir()
    with tempfile.TemporaryFile() as archive:
        pack_folder(source, archive)
        archive.seek(0)
        unpack_archive(archive, target)
    assert (target / deepest.relative_to(source) / "f").read_text() == "x"
