"""The layer that all sandboxes share: the folders and files every root needs."""

import os
import stat

import pytest

from seatrial.sandbox.embedded.settle import lock_passwords, make_basics, name_machine
from tests.sandbox.embedded.support import needs_root


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
