import pytest

from seatrial.compat.keys import MissingKeyError, ensure_keys


def test_variables_that_are_missing_are_all_named(monkeypatch):
    monkeypatch.setenv("OWN_KEY_THERE", "x")
    monkeypatch.setenv("OWN_KEY_EMPTY", "")
    monkeypatch.delenv("OWN_KEY_MISSING", raising=False)
    ensure_keys(["OWN_KEY_THERE"])
    with pytest.raises(MissingKeyError, match="OWN_KEY_EMPTY, OWN_KEY_MISSING") as raised:
        ensure_keys(["OWN_KEY_THERE", "OWN_KEY_EMPTY", "OWN_KEY_MISSING"])
    assert raised.value.keys == ["OWN_KEY_EMPTY", "OWN_KEY_MISSING"]
    assert isinstance(raised.value, ValueError)
