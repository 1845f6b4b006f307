"""A layer packed from its directory and unpacked elsewhere is the same layer."""

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import ImageError
from seatrial.images.copying import pack_layer, take_layer
from seatrial.images.store import Store, open_store
from seatrial.images.stored import StoredLayer
from seatrial.sandbox.overlay import is_whiteout
from tests.images.support import add, archive, entry, folder, link, needs_root, run

pytestmark = needs_root

CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"


def facts(top: Path) -> dict[str, Any]:
    """All that matters of what is below a directory; files with several names share a number."""
    found: dict[str, Any] = {}
    numbers: dict[int, int] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        status = path.lstat()
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in _attributes(path)}
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        target = str(path.readlink()) if path.is_symlink() else None
        number = numbers.setdefault(status.st_ino, len(numbers))
        moment = 0 if is_whiteout(status) else status.st_mtime_ns
        kept = (status.st_mode, status.st_uid, status.st_gid, moment, status.st_rdev)
        found[str(path.relative_to(top))] = (*kept, number, attributes, content, target)
    return found


def _attributes(path: Path) -> list[str]:
    return sorted(os.listxattr(path, follow_symlinks=False))


async def copied(store: Store, layer: StoredLayer, root: Path) -> StoredLayer:
    """The layer in another store."""
    path = root / "layer.tar.zst"
    root.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    with path.open("wb") as file:
        copy = await pack_layer(store, layer.digest, file)
    async with open_store(root / "store") as other:
        await take_layer(other, copy, path)
        found = other.layer(layer.digest)
    assert found is not None
    return found


def test_everything_is_the_same_in_another_store(tmp_path):
    members = [
        folder(".", mode=0o751, mtime=5),
        *(folder(name) for name in ("home", "var", "d", "d/" + "x" * 150)),
        folder("home/al", mode=0o2750, uid=1000, gid=1001, mtime=1_000_000_000),
        entry("home/al/run", content=b"x" * 3_000_000, mode=0o4711, uid=1000, gid=1001, mtime=1.5),
        link("home/al/again", "home/al/run", tarfile.LNKTYPE),
        link("home/al/soft", "../../etc/passwd"),
        entry("home/al/closed", content=b"secret", mode=0),
        entry("caf\udce9", content=b"no utf-8"),
        entry("d/" + "x" * 150 + "/" + "y" * 150, content=b"long"),
        entry("ping", mode=0o755, pax_headers={"SCHILY.xattr.security.capability": CAPABILITY.decode("latin-1")}),
        entry("noted", pax_headers={"SCHILY.xattr.user.note": "\udcff\udcfe"}),
        entry("pipe", tarfile.FIFOTYPE),
        entry(".wh.gone"),
        entry("home/.wh.bob"),
        folder("var/cache"),
        entry("var/cache/.wh..wh..opq"),
        entry("var/cache/new", content=b"new"),
    ]

    async def scene(store):
        layer = await add(store, archive(members, encoding="utf-8", errors="surrogateescape"))
        there = await copied(store, layer, tmp_path / "there")
        return layer, there

    layer, there = run(scene, tmp_path / "here")
    assert facts(there.path) == facts(layer.path)
    assert there.digest == layer.digest
    assert there.path.is_relative_to(tmp_path / "there")
    assert not there.about.hides_below


def test_a_layer_that_hides_all_below_still_does(tmp_path):
    async def scene(store):
        layer = await add(store, archive([entry(".wh..wh..opq"), entry("only", content=b"this")]))
        return await copied(store, layer, tmp_path / "there")

    there = run(scene, tmp_path / "here")
    assert there.about.hides_below
    assert [path.name for path in there.path.iterdir()] == ["only"]


def test_a_layer_that_commands_have_made_keeps_the_digest_it_is_known_by(tmp_path):
    known_as = "sha256:" + "5" * 64

    async def scene(store):
        tree = store.new_tree()
        tree.mkdir()
        (tree / "installed").write_text("program")
        return await copied(store, await store.add_tree(tree, known_as), tmp_path / "there")

    there = run(scene, tmp_path / "here")
    assert (there.digest, (there.path / "installed").read_text()) == (known_as, "program")


def test_a_name_that_would_remove_another_file_is_refused(tmp_path):
    async def scene(store):
        tree = store.new_tree()
        tree.mkdir()
        (tree / ".wh.passwd").write_text("a file of that name")
        return await copied(store, await store.add_tree(tree, "sha256:" + "5" * 64), tmp_path / "there")

    with pytest.raises(ImageError, match=r"'/\.wh\.passwd' cannot be packed"):
        run(scene, tmp_path / "here")
