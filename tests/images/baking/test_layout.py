"""What baked trees are called: one name for one recipe, and none that a registry could have."""

import os

import pytest

from seatrial.errors import UsageError
from seatrial.images.baking.layout import for_this_machine, image_name, programs_of
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
