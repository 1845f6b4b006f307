"""The user's settings of npm and pip: none without a word, and none that would put things elsewhere."""

import pytest

from seatrial.errors import UsageError
from seatrial.images.baking.host_settings import ALLOWED_BY, HostSettings, settings_here, where_settings_are

ENVIRON = {
    "PIP_INDEX_URL": "https://mirror.example/simple",
    "PIP_TARGET": "/elsewhere",
    "npm_config_registry": "https://mirror.example/npm",
    "NPM_CONFIG_PREFIX": "/elsewhere",
    "SSL_CERT_FILE": "/etc/ours.pem",
    "SECRET": "x",
}


def test_without_a_word_there_are_none():
    assert not settings_here(ENVIRON).variables
    assert not settings_here({**ENVIRON, ALLOWED_BY: "0"}).files
    assert not settings_here({**ENVIRON, ALLOWED_BY: "1"}, allowed=False).variables


def test_what_is_allowed_leads_to_registries_and_nowhere_else(tmp_path):
    (tmp_path / "npmrc").write_text("registry=https://mirror.example/npm\n")
    (tmp_path / "pip.conf").write_text("[global]\n")
    environ = {**ENVIRON, "NPM_CONFIG_USERCONFIG": f"{tmp_path}/npmrc", "PIP_CONFIG_FILE": f"{tmp_path}/pip.conf"}
    found = settings_here({**environ, ALLOWED_BY: "1"})
    assert set(found.variables) == {"PIP_INDEX_URL", "npm_config_registry", "SSL_CERT_FILE"}
    assert found.files == {".npmrc": "registry=https://mirror.example/npm\n", ".config/pip/pip.conf": "[global]\n"}
    assert where_settings_are("/home", found)["PIP_CONFIG_FILE"] == "/home/.config/pip/pip.conf"


def test_pip_takes_none_of_the_machine_either():
    assert where_settings_are("/home", HostSettings())["PIP_CONFIG_FILE"] == "/dev/null"


def test_settings_that_are_no_text_are_named(tmp_path):
    (tmp_path / "npmrc").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="npmrc: the settings for baking are no text"):
        settings_here({"NPM_CONFIG_USERCONFIG": f"{tmp_path}/npmrc"}, allowed=True)
