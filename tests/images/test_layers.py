"""From archives to layers: what overlayfs needs, and that no archive gets anywhere else."""

import bz2
import gzip
import io
import lzma
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.errors import ImageError
from seatrial.images.layers import LayerBounds, LayerFormat, unpack_layer
from tests.images.support import add, archive, entry, folder, link, look, needs_root, run, unpack

pytestmark = needs_root

CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"


def test_files_keep_what_they_are(tmp_path):
    top = unpack(
        tmp_path / "store",
        folder(".", mode=0o751),
        folder("home/al", mode=0o2750, uid=1000, gid=1001, mtime=1_000_000_000),
        entry("home/al/run", content=b"x" * 3_000_000, mode=0o4711, uid=1000, gid=1001, mtime=1.5),
        link("home/al/again", "home/al/run", tarfile.LNKTYPE),
        link("home/al/soft", "../../etc/passwd"),
        entry("pipe", tarfile.FIFOTYPE),
    )
    status = (top / "home/al/run").stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid, status.st_mtime) == (0o4711, 1000, 1001, 1.5)
    assert status.st_ino == (top / "home/al/again").stat().st_ino
    assert os.readlink(top / "home/al/soft") == "../../etc/passwd"  # noqa: PTH115 - as it is
    parent = (top / "home/al").stat()
    assert (parent.st_mode & 0o7777, parent.st_uid, parent.st_mtime) == (0o2750, 1000, 1_000_000_000)
    assert top.stat().st_mode & 0o777 == 0o751
    assert stat.S_ISFIFO((top / "pipe").lstat().st_mode)


def test_directories_that_the_archive_leaves_out(tmp_path):
    top = unpack(tmp_path / "store", entry("tmp/x"), entry("a/b/c"))
    assert (top / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert (top / "a/b").stat().st_mode & 0o7777 == 0o755


def test_what_it_removes(tmp_path):
    top = unpack(
        tmp_path / "store",
        entry("a/.wh.gone"),
        entry("b/kept"),
        entry("b/.wh..wh..opq"),
        entry(".wh..wh.plnk"),
    )
    assert look(top) == {"a": "d", "a/gone": "x", "b": "d!", "b/kept": "-"}


@pytest.mark.parametrize("order", [0, 1])
def test_a_directory_in_place_of_one_that_it_removes_hides_what_was_below(tmp_path, order):
    """A whiteout is about lower layers only, whichever comes first in the archive."""
    members = [[entry("d/.wh.x")], [folder("d/x"), entry("d/x/new")]]
    top = unpack(tmp_path / "store", *members[order], *members[1 - order])
    assert look(top) == {"d": "d", "d/x": "d!", "d/x/new": "-"}


@pytest.mark.parametrize("order", [0, 1])
def test_a_file_in_place_of_one_that_it_removes(tmp_path, order):
    members = [entry("d/.wh.x"), entry("d/x", content=b"new")]
    top = unpack(tmp_path / "store", members[order], members[1 - order])
    assert (top / "d/x").read_bytes() == b"new"


def test_a_layer_that_hides_all_below(tmp_path):
    async def scene(store):
        return (await add(store, archive([entry(".wh..wh..opq"), entry("x")]))).about.hides_below

    assert run(scene, tmp_path / "store")


def test_attributes_of_files(tmp_path):
    headers = {
        "SCHILY.xattr.security.capability": CAPABILITY.decode("utf-8", "surrogateescape"),
        "SCHILY.xattr.user.mine": "v",
        "SCHILY.xattr.trusted.overlay.redirect": "/etc",
        "SCHILY.xattr.user.overlay.opaque": "y",
        "SCHILY.xattr.security.selinux": "label",
    }
    top = unpack(tmp_path / "store", entry("ping", pax_headers=headers, mode=0o755), folder("d", pax_headers=headers))
    assert os.getxattr(top / "ping", "security.capability") == CAPABILITY
    assert sorted(os.listxattr(top / "ping")) == ["security.capability", "user.mine"]
    assert not [name for name in os.listxattr(top / "d") if "overlay" in name]


def test_devices_are_left_out_and_counted(tmp_path):
    async def scene(store):
        raw = archive([entry("dev/zero", tarfile.CHRTYPE, devmajor=0, devminor=0), entry("dev/sda", tarfile.BLKTYPE)])
        return await add(store, raw)

    layer = run(scene, tmp_path / "store")
    assert look(layer.path) == {"dev": "d"}
    assert layer.about.devices == 2


def test_later_members_replace_earlier_ones(tmp_path):
    top = unpack(
        tmp_path / "store",
        entry("a", content=b"file"),
        folder("a"),
        entry("a/b"),
        folder("c/d"),
        entry("c", content=b"c"),
        link("e", "nowhere"),
        folder("e"),
        entry("f/g/old"),
        entry("f"),
        folder("f"),
        entry("f/g/new"),
    )
    assert look(top) == {"a": "d", "a/b": "-", "c": "-", "e": "d", "f": "d", "f/g": "d", "f/g/new": "-"}


def test_links_on_the_way_lead_where_they_lead_in_the_image(tmp_path):
    top = unpack(
        tmp_path / "store",
        folder("usr/lib"),
        link("lib", "usr/lib"),
        entry("lib/x"),
        link("abs", "/srv/data"),
        entry("abs/y"),
    )
    assert look(top) == {
        "abs": "l", "lib": "l", "srv": "d", "srv/data": "d", "srv/data/y": "-", "usr": "d", "usr/lib": "d",
        "usr/lib/x": "-",
    }  # fmt: skip


def test_a_sparse_file(tmp_path):
    """As GNU tar writes it: the map in the header, the data without the holes."""
    (tmp_path / "in").mkdir()
    with (tmp_path / "in/file").open("wb") as file:
        file.seek(50 * 2**20)
        file.write(b"end")
    raw = subprocess.check_output(["tar", "--sparse", "-C", tmp_path / "in", "-cf", "-", "file"])
    assert len(raw) < 2**20
    layer = run(lambda store: add(store, raw), tmp_path / "store")
    status = (layer.path / "file").stat()
    assert (status.st_size, layer.about.size) == (50 * 2**20 + 3, 50 * 2**20 + 3)
    assert status.st_blocks * 512 < 2 * 2**20


@pytest.mark.parametrize(
    "compress",
    [bytes, gzip.compress, zstandard.ZstdCompressor().compress, bz2.compress, lzma.compress],
    ids=["plain", "gzip", "zstd", "bzip2", "xz"],
)
def test_however_it_is_compressed_its_digest_is_that_of_the_archive(tmp_path, compress):
    raw = archive([entry("file", content=b"text")])
    layers = run(lambda store: _both(store, raw, compress(raw)), tmp_path / "store")
    assert layers[0].digest == layers[1].digest
    assert (layers[0].path / "file").read_bytes() == b"text"


async def _both(store, *archives):
    return [await add(store, raw) for raw in archives]


HOSTILE = {
    "dots": [entry("../outside")],
    "dots below": [entry("a/../../outside")],
    "a link out": [link("out", "../../../../../.."), entry("out/tmp/outside")],
    "an absolute link": [link("out", "/"), entry("out/outside")],
    "a link to a link": [link("a", "b"), link("b", "/.."), entry("a/outside")],
    "a link in a loop": [link("a", "b"), link("b", "a"), entry("a/x")],
    "a hard link out": [link("x", "/etc/passwd", tarfile.LNKTYPE)],
    "a hard link with dots": [link("x", "../../etc/passwd", tarfile.LNKTYPE)],
    "a hard link through a link": [link("e", "/etc"), link("x", "e/passwd", tarfile.LNKTYPE)],
    "a hard link to a folder": [folder("d"), link("x", "d", tarfile.LNKTYPE)],
    "a hard link to a whiteout": [entry(".wh.w"), link("x", "w", tarfile.LNKTYPE)],
    "a file as a folder": [entry("f"), entry("f/x")],
    "the root as a file": [entry("/", content=b"x")],
    "a name too long": [entry("n" * 300)],
    "an impossible owner": [entry("x", uid=2**32 - 1)],
    "a whiteout of nothing": [entry(".wh.")],
    "a whiteout of dots": [entry("a/.wh...")],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_no_archive_gets_out(tmp_path, entries):
    """Each is refused, and then nothing of it is kept, or stays in its own directory."""
    root = tmp_path / "store"

    async def scene(store):
        try:
            return (await add(store, archive(entries))).path
        except ImageError as error:
            assert "archive" in str(error)
            return None

    top = run(scene, root)
    assert not list(tmp_path.rglob("passwd"))
    assert list(tmp_path.iterdir()) == [root]
    assert (
        all(path.is_relative_to(top) for path in tmp_path.rglob("outside")) if top else not list(root.glob("layers/*"))
    )
    assert list((root / "sessions").iterdir()) == []


@pytest.mark.parametrize("name", ["dots", "a hard link out", "a file as a folder", "an impossible owner"])
def test_a_refusal_names_the_member(tmp_path, name):
    with pytest.raises(ImageError, match=HOSTILE[name][-1][0].name):
        unpack(tmp_path / "store", *HOSTILE[name])


@pytest.mark.parametrize(
    ("raw", "bounds", "reason"),
    [
        (archive([entry("x", content=b"0" * 2**20)]), LayerBounds(max_bytes=2**19), "more than 524288 bytes"),
        (gzip.compress(archive([]) + bytes(2**22)), LayerBounds(max_bytes=2**19), "more than any image"),
        (archive([entry(f"{n}") for n in range(20)]), LayerBounds(max_entries=10), "10 entries"),
        (b"", LayerBounds(), "empty"),
        (b"not a tar archive at all" * 100, LayerBounds(), "not readable"),
        (archive([entry("x", content=b"0" * 2**20)])[:600_000], LayerBounds(), "x|archive"),
        (gzip.compress(archive([entry("x", content=os.urandom(2**16))]))[:30_000], LayerBounds(), "x|archive"),
    ],
    ids=["bytes", "a tail of zeros", "entries", "empty", "no tar", "cut", "cut and compressed"],
)
def test_what_is_too_large_or_broken_is_refused_and_leaves_nothing(tmp_path, raw, bounds, reason):
    root = tmp_path / "store"
    with pytest.raises(ImageError, match=reason):
        run(lambda store: add(store, raw, bounds=bounds), root)
    assert list((root / "layers").iterdir()) == list((root / "sessions").iterdir()) == []


NAMES = st.sampled_from(
    [
        "a",
        "b",
        "a/b",
        "a/b/c",
        "/a",
        "./a",
        "..",
        "a/..",
        ".",
        "",
        ".wh.a",
        "a/.wh.b",
        "a/.wh..wh..opq",
        "a//b",
        "\udcff",
    ]
)
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"Z"]
)
TARGETS = st.sampled_from(["a", "b", "/", "..", "../../..", "/etc", "a/b", ".", ""])
ENTRIES = st.lists(
    st.builds(lambda n, k, t, m: entry(n, k, linkname=t, mode=m), NAMES, KINDS, TARGETS, st.integers(0, 0o7777)),
    max_size=12,
)


def unpack_in_child(raw: bytes, top: Path) -> None:
    """As the worker does it, without starting one: a layer or a refusal, and nothing else, comes of it."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            os.chroot(top)
            os.chdir("/")
            unpack_layer(io.BytesIO(raw), LayerFormat("kept", "trusted"), LayerBounds())
            status = 0
        except ImageError:
            status = 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 1)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENTRIES)
def test_whatever_an_archive_has_it_stays_inside(tmp_path, entries):
    (tmp_path / "bait").write_text("bait")
    top = tmp_path / "top"
    top.mkdir()
    before = tmp_path.stat()
    unpack_in_child(archive(entries), top)
    after = tmp_path.stat()
    assert (before.st_mode, before.st_uid, before.st_mtime_ns) == (after.st_mode, after.st_uid, after.st_mtime_ns)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bait", "top"]
    subprocess.run(["rm", "-rf", top], check=True)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=2000), st.integers(0, 1500))
def test_any_bytes_are_a_layer_or_refused(tmp_path, noise, place):
    raw = bytearray(archive([entry("a/b", content=b"x" * 700), link("c", "a")]))
    raw[place : place + len(noise)] = noise
    top = tmp_path / "top"
    top.mkdir()
    unpack_in_child(bytes(raw), top)
    subprocess.run(["rm", "-rf", top], check=True)
