"""Archives come from strangers and go into directories strangers write to: nothing outside may be touched or read."""

import io
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.errors import SandboxError
from seatrial.sandbox.archives import Manner, open_folder, pack, unpack
from seatrial.sandbox.layers import gone_mark

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="owners and setuid bits are root's to give")


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.uid, info.gid = os.geteuid(), os.getegid()
    return info


def file(name: str, content: bytes = b"new", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, mode=mode), content


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.SYMTYPE, target), b""


def folder(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.DIRTYPE, mode=mode), b""


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.LNKTYPE, target), b""


def make_tar(members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in members:
            if info.isreg():
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@contextmanager
def descriptor_of(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def unpack_into(directory: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with descriptor_of(directory) as descriptor:
        unpack(io.BytesIO(make_tar(members)), descriptor)


def pack_names(path: Path, limit: int = 10**6) -> list[str]:
    buffer = io.BytesIO()
    pack(str(path), buffer, limit)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as tar:
        return tar.getnames()


def test_files_directories_and_links_are_made(tmp_path):
    odd = os.fsdecode(b"not utf-8 \xff")
    unpack_into(
        tmp_path, folder("a", 0o750), file("a/ü b", b"1", 0o755), link("a/l", "/x/../y"), file(odd), hard_link("h", odd)
    )
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750
    assert (tmp_path / "a/ü b").read_bytes() == b"1"
    assert stat.S_IMODE((tmp_path / "a/ü b").stat().st_mode) == 0o755
    assert (tmp_path / "a/l").readlink() == Path("/x/../y")
    assert (tmp_path / "h").samefile(tmp_path / odd)


def test_missing_parents_are_made_readable_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        unpack_into(tmp_path, file("p/q/f"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "p/q").stat().st_mode) == 0o755


def test_times_survive_even_those_of_directories(tmp_path):
    members = [folder("d"), file("d/f"), link("l", "d")]
    for info, _ in members:
        info.mtime = 1_000_000_000.5
    unpack_into(tmp_path, *members)
    for name in ("d", "d/f", "l"):
        assert (tmp_path / name).lstat().st_mtime == 1_000_000_000.5, name


@needs_root
def test_root_keeps_owners_and_setuid(tmp_path):
    info, content = file("tool", mode=0o4755)
    info.uid, info.gid = 1234, 5678
    unpack_into(tmp_path, (info, content))
    found = (tmp_path / "tool").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 5678, 0o4755)


def test_existing_directories_keep_their_mode(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    unpack_into(tmp_path, folder(".", 0o700), folder("tmp", 0o700), file("tmp/f"))
    assert stat.S_IMODE((tmp_path / "tmp").stat().st_mode) == 0o1777
    assert (tmp_path / "tmp/f").exists()


@pytest.mark.parametrize("planted", ["victim", "missing", "directory"])
def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(tmp_path, planted):
    target = tmp_path / "box"
    target.mkdir()
    (tmp_path / "victim").write_text("keep")
    (tmp_path / "directory").mkdir()
    (target / "f").symlink_to(tmp_path / planted)
    unpack_into(target, file("f"))
    assert (target / "f").read_text() == "new"
    assert not (target / "f").is_symlink()
    assert (tmp_path / "victim").read_text() == "keep"
    assert not (tmp_path / "missing").exists()


def test_a_hard_link_in_the_place_of_a_file_is_replaced_not_written(tmp_path):
    target = tmp_path / "box"
    target.mkdir()
    (tmp_path / "victim").write_text("keep")
    (target / "f").hardlink_to(tmp_path / "victim")
    unpack_into(target, file("f"))
    assert (tmp_path / "victim").read_text() == "keep"


def test_a_directory_replaces_a_link(tmp_path):
    target = tmp_path / "box"
    target.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (target / "d").symlink_to(tmp_path / "elsewhere")
    unpack_into(target, folder("d"), file("d/f"))
    assert (target / "d/f").exists()
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("between", [file("d"), (gone_mark("d"), b"")], ids=["a file", "a mark"])
def test_a_directory_that_was_just_filled_may_go_and_come_again(tmp_path, between):
    members = [file("d/e/old"), between, (gone_mark("d"), b""), file("d/e/new"), file("d/e/newer")]
    with descriptor_of(tmp_path) as descriptor:
        unpack(io.BytesIO(make_tar(members)), descriptor, manner="layer")
    assert sorted(path.name for path in (tmp_path / "d/e").iterdir()) == ["new", "newer"]


REFUSED = [
    ("absolute", [file("/etc/x")], "'/etc/x'.*absolute"),
    ("parent", [file("a/../../x")], r"'a/../../x'.*\.\."),
    ("through its own link", [link("l", "/usr"), file("l/x")], "'l/x'.*in the way"),
    ("through a file", [file("f"), file("f/x")], "'f/x'.*in the way"),
    ("character device", [(entry("null", tarfile.CHRTYPE), b"")], "'null'.*devices"),
    ("block device", [(entry("sda", tarfile.BLKTYPE), b"")], "'sda'.*devices"),
    ("pipe", [(entry("fifo", tarfile.FIFOTYPE), b"")], "'fifo'.*pipes"),
    ("hard link out", [hard_link("h", "../secret")], r"'h'.*\.\."),
    ("absolute hard link", [hard_link("h", "/etc/passwd")], "'h'.*absolute"),
    ("hard link to what was there", [hard_link("h", "planted")], "'h'.*earlier file"),
    ("hard link to a link", [link("l", "/etc/passwd"), hard_link("h", "l")], "'h'.*earlier file"),
    ("hard link to itself", [file("f"), hard_link("f", "f")], "'f'.*earlier file"),
    ("no name", [file(".")], "empty"),
    ("a full directory", [file("d/f"), file("d")], "'d' cannot be unpacked.*not empty"),
    ("a name too long", [file("n" * 300)], "cannot be unpacked.*too long"),
]


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_refused_is_named(tmp_path, members, message):
    (tmp_path / "planted").write_text("there before")
    with pytest.raises(SandboxError, match=message):
        unpack_into(tmp_path, *members)


@pytest.mark.parametrize("broken", [b"", b"no tar at all" * 100, make_tar([file("f", b"x" * 2000)])[:1500]])
def test_a_broken_archive_is_an_error_of_ours(tmp_path, broken):
    with descriptor_of(tmp_path) as descriptor, pytest.raises(SandboxError):
        unpack(io.BytesIO(broken), descriptor)


def test_a_negative_size_is_refused_instead_of_read_for_ever(tmp_path):
    header = bytearray(make_tar([file("f", b"")])[:512])
    header[124:136] = b"\xff" * 10 + (-1024).to_bytes(2, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with descriptor_of(tmp_path) as descriptor, pytest.raises(SandboxError, match=r"negative sizes|invalid offset"):
        unpack(io.BytesIO(bytes(header) + bytes(4096)), descriptor)


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "secret", "out"]), min_size=1, max_size=3).map("/".join)
TARGETS = NAMES | st.sampled_from(["../outside", "OUTSIDE", "OUTSIDE/secret", "/", "a", "../outside/secret"])
KINDS = st.sampled_from(
    [
        *[tarfile.REGTYPE] * 3,
        *[tarfile.SYMTYPE] * 3,
        tarfile.LNKTYPE,
        tarfile.DIRTYPE,
        tarfile.CHRTYPE,
        tarfile.FIFOTYPE,
    ]
)
MODES = st.sampled_from([0o644, 0o777, 0o4755, 0o000])
MEMBERS = st.lists(st.tuples(NAMES, KINDS, TARGETS, MODES), max_size=8)


def picture(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that can be seen of a directory: names, modes, times and contents."""
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


MANNERS = st.sampled_from(get_args(Manner))


@given(MEMBERS, st.binary(max_size=6), st.integers(0, 4000), MANNERS)
@example([("a", tarfile.SYMTYPE, "OUTSIDE", 0), ("a/secret", tarfile.REGTYPE, "", 0o644)], b"", 0, "files")
@example([("a", tarfile.SYMTYPE, "../outside/secret", 0), ("a", tarfile.REGTYPE, "", 0o777)], b"", 0, "files")
@example([("a", tarfile.LNKTYPE, "../outside/secret", 0), ("a", tarfile.REGTYPE, "", 0o777)], b"", 0, "files")
@example([("out", tarfile.CHRTYPE, "", 0), ("out/secret", tarfile.REGTYPE, "", 0o777)], b"", 0, "layer")
def test_no_archive_touches_anything_outside(members, damage, position, manner):
    with tempfile.TemporaryDirectory() as name:
        outside, box = Path(name, "outside"), Path(name, "box")
        outside.mkdir()
        box.mkdir()
        (outside / "secret").write_text("keep")
        (box / "out").symlink_to(outside)
        before = picture(outside)
        tar = bytearray(
            make_tar(
                [(entry(n, kind, link.replace("OUTSIDE", str(outside)), mode), b"!") for n, kind, link, mode in members]
            )
        )
        tar[position : position + len(damage)] = damage
        with descriptor_of(box) as descriptor:
            try:
                unpack(io.BytesIO(bytes(tar)), descriptor, manner=manner)
            except SandboxError as error:
                assert str(error)
        assert picture(outside) == before
        assert sorted(path.name for path in Path(name).iterdir()) == ["box", "outside"]


def test_a_packed_tree_unpacks_to_the_same_tree(tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    (source / "empty").mkdir(parents=True)
    (source / "a b").mkdir(mode=0o700)
    (source / "a b" / os.fsdecode(b"\xfe\xff")).write_bytes(b"x" * 100_000)
    (source / "a b" / os.fsdecode(b"\xfe\xff")).chmod(0o640)
    (source / "dangling").symlink_to("nowhere")
    (source / "ünï").write_text("text")
    buffer = io.BytesIO()
    pack(str(source), buffer, 10**6)
    buffer.seek(0)
    copy.mkdir()
    with descriptor_of(copy) as descriptor:
        unpack(buffer, descriptor)
    for path in source.rglob("*"):
        there = copy / path.relative_to(source)
        assert there.lstat().st_mode == path.lstat().st_mode
        assert there.lstat().st_mtime == int(path.lstat().st_mtime)
        assert not path.is_file() or there.read_bytes() == path.read_bytes()
    assert (copy / "dangling").readlink() == Path("nowhere")


def test_packing_names_what_is_below_from_a_dot(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").touch()
    assert pack_names(tmp_path) == [".", "d", "d/f"]
    assert pack_names(tmp_path / "d/f") == ["f"]


def test_packing_leaves_out_pipes_and_never_waits_for_them(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "f").touch()
    assert pack_names(tmp_path) == [".", "f"]
    with pytest.raises(SandboxError, match="pipe"):
        pack_names(tmp_path / "fifo")


@pytest.mark.parametrize("missing", ["nothing", "file/below", "nothing/below"])
def test_packing_what_is_not_there(tmp_path, missing):
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError):
        pack_names(tmp_path / missing)


def test_one_file_may_be_exactly_as_long_as_the_limit(tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 1000)
    assert pack_names(tmp_path / "f", limit=1000) == ["f"]
    with pytest.raises(SandboxError, match="limit of 999 bytes"):
        pack_names(tmp_path / "f", limit=999)


def test_many_empty_files_reach_the_limit_too(tmp_path):
    for number in range(20):
        (tmp_path / str(number)).touch()
    with pytest.raises(SandboxError, match="limit of 10000 bytes"):
        pack_names(tmp_path, limit=10_000)


def test_a_deep_tree_is_an_error_of_ours(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    with pytest.raises(SandboxError, match="nested"):
        pack_names(tmp_path)


def test_packing_relative_to_a_directory(tmp_path):
    (tmp_path / "f").write_text("x")
    buffer = io.BytesIO()
    with descriptor_of(tmp_path) as descriptor:
        pack("f", buffer, 100, directory_fd=descriptor)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as tar:
        assert tar.getnames() == ["f"]


def test_opening_a_folder_through_a_link_or_a_file_counts_as_missing(tmp_path):
    (tmp_path / "real/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    with descriptor_of(tmp_path) as top:
        os.close(open_folder(top, ["real", "below"]))
        for way in (["link", "below"], ["file", "below"], ["none"]):
            with pytest.raises(FileNotFoundError):
                open_folder(top, way)
        with pytest.raises(SandboxError, match="'link' is in the way"):
            open_folder(top, ["link", "below"], missing="make")


WITHOUT_IMPORTS = r"""
import io, os, sys
from seatrial.errors import SandboxError
from seatrial.sandbox.archives import pack, unpack

loaded = set(sys.modules)
sys.meta_path.clear()
os.mkdir("source")
open(b"source/\xff", "w").close()
open("source/\u00fc" + 200 * "n", "w").close()
os.symlink("nowhere", "source/link")
archive = io.BytesIO()
pack("source", archive, 10**6)
archive.seek(0)
os.mkdir("copy")
folder = os.open("copy", os.O_RDONLY)
unpack(archive, folder)
for broken in (b"", b"x" * 2000, archive.getvalue()[:700]):
    try:
        unpack(io.BytesIO(broken), folder)
    except SandboxError:
        pass
print(sorted(os.listdir(b"copy")) == sorted(os.listdir(b"source")), set(sys.modules) - loaded)
"""


def test_nothing_is_imported_when_called(tmp_path):
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_IMPORTS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert shown.stdout == "True set()\n", shown.stderr
