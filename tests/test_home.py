"""The home directory: one that is not there is said to be so, and never made."""

from pathlib import Path

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.home import home_directory
from seatrial.images.cache import cache_root
from seatrial.store.seal import key_path


def test_it_is_where_home_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_directory() == tmp_path


@pytest.mark.parametrize("home", ["relative", "nowhere/at/all", "/nonexistent/home"])
def test_one_that_is_not_there_is_refused_and_nothing_is_made(monkeypatch, tmp_path, home):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "SEATRIAL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    with pytest.raises(HostUnsupportedError, match=f"'{home}' .*set HOME .* or SEATRIAL_CACHE to a directory"):
        cache_root()
    with pytest.raises(FileNotFoundError, match="set HOME to one of your own"):
        key_path()
    assert list(tmp_path.iterdir()) == []


def test_the_advice_works(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path))
    assert cache_root() == tmp_path


def test_a_relative_cache_does_not_count(monkeypatch, tmp_path):
    monkeypatch.delenv("SEATRIAL_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_root() == Path(tmp_path, ".cache/seatrial")
