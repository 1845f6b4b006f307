"""Images from files: as Docker saves them, old and new, as OCI layouts have them, and plain root file systems."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from seatrial.errors import ImageError, UsageError
from seatrial.images.archives import load_images
from seatrial.images.config import host_platform
from seatrial.testing.registry import digest, pack
from tests.images.support import archive, entry, folder, link, needs_root, run

pytestmark = needs_root

ONE, TWO = pack({"etc/name": b"one"}), pack({"etc/name": b"two"})
SETTINGS = {"Env": ["A=b"], "Cmd": ["sh"]}


def config(*layers: bytes, **more: Any) -> bytes:
    rootfs = {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}
    where = {"os": "linux", "architecture": host_platform().architecture}
    return json.dumps({**where, "config": SETTINGS, "rootfs": rootfs, **more}).encode()


def hexadecimal(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def old_docker(*images: tuple[list[str], list[bytes]]) -> bytes:
    """As `docker save` wrote it for years: a directory per layer, with a link for one it has already."""
    entries, manifest = [], []
    seen: dict[bytes, str] = {}
    for number, (tags, layers) in enumerate(images):
        names = []
        for place, layer in enumerate(layers):
            name = f"{hexadecimal(b'%d %d' % (number, place))}/layer.tar"
            names.append(name)
            target = seen.setdefault(layer, name)
            entries.append(folder(name.partition("/")[0] + "/"))
            entries.append(entry(name, content=layer) if target == name else link(name, f"../{target}"))
        raw = config(*layers)
        entries.append(entry(f"{hexadecimal(raw)}.json", content=raw))
        manifest.append({"Config": f"{hexadecimal(raw)}.json", "RepoTags": tags or None, "Layers": names})
    entries += [entry("manifest.json", content=json.dumps(manifest).encode()), entry("repositories", content=b"{}")]
    return archive(entries)


def oci_files(name: str | None, *layers: bytes, compress: Any = gzip.compress) -> dict[str, bytes]:
    """An OCI layout, whose index leads to an index by platform."""
    blobs = [config(*layers), *(compress(layer) for layer in layers)]
    described = [{"mediaType": "x", "digest": digest(blob), "size": len(blob)} for blob in blobs]
    manifest = json.dumps({"schemaVersion": 2, "config": described[0], "layers": described[1:]}).encode()
    platform = {"os": "linux", "architecture": host_platform().architecture}
    entry_of_platform = {"digest": digest(manifest), "size": len(manifest), "platform": platform}
    foreign = {"digest": "sha256:" + "0" * 64, "size": 1, "platform": {"os": "linux", "architecture": "mips"}}
    inner = json.dumps({"schemaVersion": 2, "manifests": [foreign, entry_of_platform]}).encode()
    top = {"digest": digest(inner), "size": len(inner)}
    notes = {"annotations": {"org.opencontainers.image.ref.name": name}} if name else {}
    files = {f"blobs/sha256/{hexadecimal(blob)}": blob for blob in (*blobs, manifest, inner)}
    index = json.dumps({"schemaVersion": 2, "manifests": [{**top, **notes}]}).encode()
    return {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **files}


def load(tmp_path: Path, content: bytes | dict[str, bytes], tag: str | None = None) -> Any:
    """The names of each image and what its layers say."""
    path = tmp_path / "file"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        for name, raw in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(raw)

    async def scene(store):
        images = await load_images(store, path, tag)
        assert all(store.image(image).config.env for image in images)
        return [
            (
                [named.reference for named in image.names],
                [(p / "etc/name").read_text() for p in store.image(image).layers],
            )
            for image in images
        ]

    found = run(scene, tmp_path / "store")
    assert list((tmp_path / "store/sessions").iterdir()) == []
    return found


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["plain", "gzip", "zstd"]
)
def test_an_old_docker_archive(tmp_path, compress):
    raw = old_docker((["app:1", "ghcr.io/x/app"], [ONE, TWO]), ([], [ONE]))
    assert load(tmp_path, compress(raw)) == [
        (["docker.io/library/app:1", "ghcr.io/x/app:latest"], ["one", "two"]),
        ([], ["one"]),
    ]


def test_a_new_docker_archive_is_an_oci_layout_with_a_list_of_docker_s(tmp_path):
    files = oci_files(None, ONE, TWO, compress=bytes)
    blobs = [f"blobs/sha256/{hexadecimal(layer)}" for layer in (ONE, TWO)]
    manifest = [{"Config": f"blobs/sha256/{hexadecimal(config(ONE, TWO))}", "RepoTags": ["app:1"], "Layers": blobs}]
    files["manifest.json"] = json.dumps(manifest).encode()
    assert load(tmp_path, pack(files)) == [(["docker.io/library/app:1"], ["one", "two"])]


@pytest.mark.parametrize("form", ["directory", "archive", "compressed archive"])
def test_an_oci_layout(tmp_path, form):
    files = oci_files("ghcr.io/team/app:2", ONE, TWO)
    content = files if form == "directory" else pack(files) if form == "archive" else gzip.compress(pack(files))
    assert load(tmp_path, content) == [(["ghcr.io/team/app:2"], ["one", "two"])]


def test_a_bare_tag_is_no_name(tmp_path):
    assert load(tmp_path, pack(oci_files("latest", ONE)), tag="mine:1") == [(["docker.io/library/mine:1"], ["one"])]


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["plain", "gzip", "zstd"]
)
def test_a_root_file_system(tmp_path, compress):
    """Also one with a file whose name an archive of images has."""
    raw = pack({"manifest.json": b"[]", "etc/name": b"root"}, [folder("./")[0]])
    assert load(tmp_path, compress(raw), tag="base") == [(["docker.io/library/base:latest"], ["root"])]


def without(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {key: value for key, value in files.items() if name not in key}


def changed(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {key: value[::-1] if name in key else value for key, value in files.items()}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"nonsense" * 500, "not readable"),
        (gzip.compress(b"nonsense" * 500), "cannot be read"),
        (archive([entry("manifest.json", content=b"[{}]")]), "not that of a `docker save`"),
        (archive([entry("manifest.json", content=b"[")]), "not JSON"),
        (archive([entry("index.json", content=b"{}")]), "no image"),
        (pack(without(oci_files("a:1", ONE), hexadecimal(config(ONE)))), "is missing"),
        (pack(changed(oci_files("a:1", ONE), hexadecimal(config(ONE)))), "another content"),
        (pack(without(oci_files("a:1", ONE), hexadecimal(gzip.compress(ONE)))), "is missing"),
        ({"somewhere/else": b"x"}, "no image"),
    ],
    ids=[
        *(
            "empty",
            "nonsense",
            "compressed nonsense",
            "a manifest of nothing",
            "half a manifest",
            "an index of nothing",
        ),
        *("no config", "another config", "no layer", "another folder"),
    ],
)
def test_what_is_no_image(tmp_path, content, reason):
    with pytest.raises(ImageError, match=f"file cannot be loaded: .*{reason}"):
        load(tmp_path, content)
    assert list((tmp_path / "store/images").iterdir()) == []


def test_a_layer_that_is_not_what_its_image_says_is_refused(tmp_path):
    raw = old_docker((["app:1"], [ONE])).replace(b"one", b"eve")
    with pytest.raises(ImageError, match="not what its image says"):
        load(tmp_path, raw)


def test_one_name_for_several_images_is_refused(tmp_path):
    with pytest.raises(ImageError, match="has 2 images"):
        load(tmp_path, old_docker((["a:1"], [ONE]), (["b:1"], [TWO])), tag="c")


def test_a_bad_name_is_refused_before_anything_is_done(tmp_path):
    with pytest.raises(UsageError, match="names no image"):
        load(tmp_path, ONE, tag="NO GOOD")


def test_a_link_out_of_a_layout_leads_nowhere(tmp_path):
    files = oci_files("a:1", ONE)
    name = f"blobs/sha256/{hexadecimal(config(ONE))}"
    (tmp_path / "secret").write_bytes(files.pop(name))
    (tmp_path / "file/blobs/sha256").mkdir(parents=True)
    (tmp_path / "file" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ImageError, match="is missing"):
        load(tmp_path, files)
