import json
from pathlib import Path

import pytest

from seatrial.model.record import SandboxRef
from seatrial.view.originals import find_original

DIGEST = f"sha256:{'d' * 64}"
LAYERS = [f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"]
HOST = SandboxRef(backend="embedded", image="host", network="none")
IMAGE = SandboxRef(backend="embedded", image="python:3.11", image_digest=DIGEST, network="none")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of images with one image of two layers."""
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path))
    (tmp_path / "images").mkdir()
    document = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": LAYERS}}
    (tmp_path / "images" / f"{'d' * 64}.json").write_text(json.dumps(document))
    for layer, content in zip(LAYERS, ("lower", "upper"), strict=True):
        root = tmp_path / "layers" / layer[7:] / "root"
        (root / "app").mkdir(parents=True)
        (root / "app/both.txt").write_text(content)
        (root / f"app/{content}.txt").write_text(content)
        (root / "app/link.txt").symlink_to("/etc/passwd")
    return tmp_path


def content(sandbox: SandboxRef, path: str) -> bytes | None:
    found = find_original(sandbox, path)
    return found.content.head if found else None


def test_the_topmost_layer_that_knows_a_file_decides(store):
    paths = [
        "/app/both.txt",
        "/app/lower.txt",
        "/app/upper.txt",
        "/app/none.txt",
        "/app/link.txt",
        "/../../../etc/passwd",
    ]
    assert [content(IMAGE, path) for path in paths] == [b"upper", b"lower", b"upper", None, None, None]


def test_an_image_that_is_not_here_as_a_whole_has_no_files(store):
    (store / "layers" / LAYERS[0][7:] / "root").rename(store / "gone")
    assert content(IMAGE, "/app/upper.txt") is None
    assert content(IMAGE.model_copy(update={"image_digest": "sha256:../../x"}), "/app/upper.txt") is None
    assert content(IMAGE.model_copy(update={"image_digest": None}), "/app/upper.txt") is None


def test_of_this_machine_only_what_everybody_may_read(tmp_path):
    """A stranger's record may name any path, and the page of a trial would show what is there."""
    shared = next(path for path in (Path("/etc/passwd"), Path("/etc/group")) if path.is_file())
    found = find_original(HOST, str(shared))
    assert found
    assert found.content.head == shared.read_bytes()
    assert "as it is on this machine now" in found.note
    own = tmp_path / "own.txt"
    own.write_text("x")
    own.chmod(0o600)
    hidden = [str(own), "/etc/shadow", "/proc/self/environ", "/dev/null", "/etc", "/etc/../etc/passwd", "relative"]
    assert [content(HOST, path) for path in hidden] == [None] * len(hidden)


def test_a_file_in_a_closed_folder_is_not_for_everybody(tmp_path):
    file = tmp_path / "closed/file.txt"
    file.parent.mkdir(mode=0o700)
    file.write_text("x")
    file.chmod(0o644)
    assert content(HOST, str(file)) is None
