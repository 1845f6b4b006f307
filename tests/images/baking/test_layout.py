"""What baked trees are called: one name for one recipe, and none that a registry could have."""

import os

import pytest

from seatrial.errors import UsageError
from seatrial.images.baking.layout import (
    ALLOWED_BY,
    HostSettings,
    for_this_machine,
    image_name,
    programs_of,
    settings_here,
    where_settings_are,
)
from seatrial.images.reference import parse_reference
from seatrial.model.job import LayerRecipe

RECIPE = LayerRecipe(name="Pi", version="1.2+x", npm=("pi-linux-{arch}@1.2",), programs={"pi": "{arch}/pi"})


def test_another_recipe_has_another_name_and_all_are_out_of_reach_of_registries():
    other = RECIPE.model_copy(update={"npm": ("pi@1.3",)})
    name = image_name(RECIPE)
    assert image_name(other) != name == image_name(RECIPE.model_copy())
    assert str(parse_reference(name)).startswith("seatrial.invalid/agents/pi:1.2_x-")


def test_the_architecture_is_npm_s_word_for_it(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: type("Name", (), {"machine": "aarch64"}))
    assert for_this_machine(RECIPE).npm == ("pi-linux-arm64@1.2",)
    assert for_this_machine(RECIPE).programs == {"pi": "arm64/pi"}
    monkeypatch.setattr(os, "uname", lambda: type("Name", (), {"machine": "s390x"}))
    with pytest.raises(UsageError, match=r"Pi 1\.2\+x cannot be baked here: .* this machine is s390x"):
        for_this_machine(RECIPE)


def test_only_the_folder_of_launchers_is_for_a_path():
    assert programs_of(RECIPE) == "/opt/seatrial/agents/Pi/1.2+x/bin"


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
