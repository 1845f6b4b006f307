"""Modules beside the work, by generator: any that the image can import, in any shape, however one gets there."""

import random
import subprocess
from dataclasses import replace

import pytest

from tests.attacks.arena import Arena, assert_stopped
from tests.attacks.attack import FORGE_PY, Attack, judged_by, plant
from tests.attacks.python_attacks import SITE, STDLIB
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root

_LOADED = ["/usr/bin/python3", "-c", "import sys; print(*sys.modules, *sys.builtin_module_names)"]
_SPARED = ("test", "tests", "this", "antigravity", "sitecustomize", "__pycache__")
_SHAPES = {
    "a file": lambda place, name: plant(f"{place}/{name}.py", FORGE_PY),
    "a package": lambda place, name: plant(f"{place}/{name}/__init__.py", FORGE_PY),
    "a link to a file": lambda place, name: f"{plant('/app/x.txt', FORGE_PY)}; ln -s /app/x.txt {place}/{name}.py",
    "a link to a package": lambda place, name: (
        f"{plant('/app/own/__init__.py', FORGE_PY)}; mkdir -p {place}; ln -s /app/own {place}/{name}"
    ),
}
_WAYS = {
    "where it starts": ("/app", "{run}"),
    "a variable": ("/srv/work", "PLACE=/srv/work; cd $PLACE; {run}"),
    "step by step": ("/app/sub/deep", "cd sub; cd deep; {run}"),
    "PYTHONPATH": ("/srv/lib", "PYTHONPATH=/srv/lib {run}"),
    "cwd": ("/app/sub", "/usr/bin/python3 /tests/start.py"),
}
_START = """
import subprocess
from pathlib import Path
TOP = Path("/app")
subprocess.run(["/opt/venv/bin/python3", "-c", "import {name}"], cwd=TOP / "sub")
"""


@pytest.fixture(scope="module")
def stocked(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> tuple[Arena, list[str]]:
    """The arena with packages that no list knows, and the names of all that its interpreters can import."""
    layer = tmp_path_factory.mktemp("packages")
    own = [f"stranger{random.Random(seed).randrange(10**6)}" for seed in range(20)]
    for name in own:
        (layer / SITE.lstrip("/") / name).mkdir(parents=True)
        (layer / SITE.lstrip("/") / name / "__init__.py").write_text("")
    (root,) = arena.image.layers
    library = {path.name.partition(".")[0] for path in (root / STDLIB.lstrip("/")).iterdir()}
    # What Python has loaded before it looks beside the work cannot be taken for anything else.
    loaded = {name.partition(".")[0] for name in subprocess.check_output(_LOADED, text=True).split()}
    names = sorted(name for name in library - loaded if name.isidentifier() and name not in _SPARED)
    return Arena(arena.desk, replace(arena.image, layers=(root, layer))), [*own, *names[::4]]


def _generated(seed: int, names: list[str]) -> Attack:
    chosen = random.Random(seed)
    name = chosen.choice(names)
    shape = chosen.choice(sorted(_SHAPES))
    way = chosen.choice(sorted(_WAYS))
    place, script = _WAYS[way]
    run = f"/opt/venv/bin/python3 -c 'import {name}'"
    against = judged_by(script.format(run=run), **{"tests/start.py": _START.format(name=name)})
    return Attack(f"{name}, {shape}, {way}", f"mkdir -p {place}; {_SHAPES[shape](place, name)}", against)


@pytest.mark.parametrize("seed", sampled(range(16)))
def test_whatever_stands_in_front_of_a_module_of_the_image_is_hidden(
    stocked: tuple[Arena, list[str]], seed: int
) -> None:
    arena, names = stocked
    attack = _generated(seed, names)
    assert_stopped(attack, arena.play(attack))
