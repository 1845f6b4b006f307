"""The folders of this machine's system that become an ordinary user's own."""

import os
import stat
from pathlib import Path

import pytest

from seatrial.sandbox.embedded import roots
from seatrial.sandbox.embedded.roots import lock_passwords, make_basics, make_own_system, name_machine
from tests.sandbox.embedded.support import needs_root


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
    parts = {f"{inside}/usr": roots._Part(2), f"{inside}/etc": roots._Part(9, files=True)}
    monkeypatch.setattr(roots, "_PARTS", parts)
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
    monkeypatch.setattr(roots, "_MOST_FOLDERS", 1)
    make_own_system(str(tmp_path / "layers"))
    assert "usr/lib/deep" not in made(machine, tmp_path / "layers")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_the_user_may_not_read_stays_as_it_is(machine: Path, tmp_path: Path):
    (machine / "usr/lib/deep").chmod(0o311)
    make_own_system(str(tmp_path / "layers"))
    (machine / "usr/lib/deep").chmod(0o755)
    assert "usr/lib/deep" not in made(machine, tmp_path / "layers")


@pytest.fixture
def _umask_of_the_spawner():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask_of_the_spawner")
def test_the_shared_layer_has_what_every_root_needs(tmp_path):
    make_basics(str(tmp_path))
    for folder in ("proc", "sys", "dev", "etc", "logs"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o755
    for folder in ("logs/agent", "logs/artifacts"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o777
    assert (tmp_path / "etc/hostname").read_text() == "sandbox\n"
    assert "127.0.0.1 localhost sandbox" in (tmp_path / "etc/hosts").read_text()


@needs_root
@pytest.mark.parametrize("name", ["hostname", "hosts", "resolv.conf"])
def test_a_file_the_host_keeps_to_itself_is_named_anew(tmp_path, name):
    """Its mask, a whiteout, lies where ours has to go."""
    (tmp_path / "etc").mkdir()
    os.mknod(tmp_path / "etc" / name, stat.S_IFCHR, os.makedev(0, 0))
    name_machine(str(tmp_path))
    assert stat.S_ISREG((tmp_path / "etc" / name).lstat().st_mode)


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").symlink_to(tmp_path / "elsewhere")
    name_machine(str(tmp_path))
    assert not (tmp_path / "elsewhere").exists()


def test_every_user_of_the_host_has_a_password_that_cannot_be_given(tmp_path):
    (tmp_path / "etc").mkdir()
    lock_passwords(str(tmp_path))
    rows = [line.split(":") for line in (tmp_path / "etc/shadow").read_text().splitlines()]
    assert "root" in {row[0] for row in rows}
    assert {row[1] for row in rows} == {"*"}
    assert stat.S_IMODE((tmp_path / "etc/shadow").stat().st_mode) == 0o600
