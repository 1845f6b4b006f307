"""The folders of this machine's system that become an ordinary user's own."""

import os
from pathlib import Path

import pytest

from seatrial.sandbox.embedded import own_system
from seatrial.sandbox.embedded.own_system import make_own_system


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system of two folders, seen from the root of this one."""
    root = tmp_path / "machine"
    for folder in ("usr/lib/deep/deeper", "etc/apt"):
        (root / folder).mkdir(parents=True)
    (root / "usr/lib/library.so").write_text("code")
    (root / "etc/apt/sources").write_text("deb")
    (root / "etc/apt/sources").chmod(0o640)
    (root / "etc/huge").write_bytes(b"x" * 2**21)
    (root / "etc/link").symlink_to("apt")
    inside = str(root).lstrip("/")
    parts = {f"{inside}/usr": own_system._Part(2), f"{inside}/etc": own_system._Part(9, files=True)}
    monkeypatch.setattr(own_system, "_PARTS", parts)
    return root


def made(root: Path, layers: Path) -> list[str]:
    top = layers / str(root).lstrip("/")
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))


def test_folders_to_their_depth_and_settings_with_their_files(machine: Path, tmp_path: Path):
    layers = tmp_path / "layers"
    make_own_system(str(layers))
    assert made(machine, layers) == ["etc", "etc/apt", "etc/apt/sources", "usr", "usr/lib", "usr/lib/deep"]
    sources = layers / str(machine).lstrip("/") / "etc/apt/sources"
    assert (sources.read_text(), sources.stat().st_mode & 0o777) == ("deb", 0o640)


def test_what_is_there_already_stays(machine: Path, tmp_path: Path):
    layers = tmp_path / "layers"
    etc = layers / str(machine).lstrip("/") / "etc"
    etc.mkdir(parents=True)
    (etc / "apt").write_text("stands for a folder that is hidden")
    make_own_system(str(layers))
    assert (etc / "apt").read_text() == "stands for a folder that is hidden"


def test_no_more_folders_than_can_be_made_quickly(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own_system, "_MOST_FOLDERS", 1)
    make_own_system(str(tmp_path / "layers"))
    assert "usr/lib/deep" not in made(machine, tmp_path / "layers")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_the_user_may_not_read_stays_as_it_is(machine: Path, tmp_path: Path):
    (machine / "usr/lib/deep").chmod(0o311)
    make_own_system(str(tmp_path / "layers"))
    (machine / "usr/lib/deep").chmod(0o755)
    assert "usr/lib/deep" not in made(machine, tmp_path / "layers")
