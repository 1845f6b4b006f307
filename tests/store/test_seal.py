"""Seals: only the user who made a job has one for it, whatever others write beside it."""

import os
import shutil
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.store.seal import SEAL, add_seal, has_seal, key_path


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def test_what_was_sealed_has_a_seal_and_goes_on_having_it_after_a_change(job):
    assert not has_seal(job, b"one")
    add_seal(job, b"one")
    add_seal(job, b"two")
    assert has_seal(job, b"one")
    assert has_seal(job, b"two")
    assert not has_seal(job, b"three")


def test_a_moved_or_copied_folder_keeps_its_seal(job, tmp_path):
    add_seal(job, b"one")
    assert has_seal(shutil.copytree(job, tmp_path / "copy"), b"one")
    assert has_seal(job.rename(tmp_path / "moved"), b"one")


def test_the_key_is_private_and_made_once(job, state):
    add_seal(job, b"one")
    (key,) = [path for path in state.rglob("*") if path.is_file()]
    assert key == key_path()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    content = key.read_bytes()
    add_seal(job, b"two")
    assert key.read_bytes() == content


def test_the_seal_of_another_user_is_none(job, state, tmp_path, monkeypatch):
    add_seal(job, b"one")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not has_seal(job, b"one")
    add_seal(job, b"one")
    assert has_seal(job, b"one")


@pytest.mark.parametrize(
    "spoil", [lambda key: key.chmod(0o644), lambda key: key.write_bytes(b""), lambda key: key.unlink()]
)
def test_a_key_that_others_may_know_proves_nothing(job, spoil):
    add_seal(job, b"one")
    spoil(key_path())
    assert not has_seal(job, b"one")


def test_a_link_is_neither_read_nor_written(job, tmp_path):
    target = tmp_path / "target"
    add_seal(job, b"one")
    (job / SEAL).rename(target)
    (job / SEAL).symlink_to(target)
    before = target.read_bytes()
    assert not has_seal(job, b"one")
    with pytest.raises(OSError, match="symbolic links"):
        add_seal(job, b"two")
    assert target.read_bytes() == before


def test_a_pipe_in_its_place_is_not_waited_for(job):
    add_seal(job, b"one")
    (job / SEAL).unlink()
    os.mkfifo(job / SEAL)
    assert not has_seal(job, b"one")


def test_a_user_without_a_place_for_it_has_no_key(job, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with pytest.raises(OSError, match="nowhere"):
        add_seal(job, b"one")
    assert not has_seal(job, b"one")


def test_a_relative_state_home_does_not_count(monkeypatch):
    home = {"XDG_STATE_HOME": "state"}
    assert key_path(home).is_absolute()
    assert str(key_path(home)).endswith(".local/state/seatrial/seal.key")


@given(st.binary(max_size=200), st.binary(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_of_a_stranger_make_a_seal(job, seals, content):
    (job / SEAL).write_bytes(seals)
    assert not has_seal(job, content)
