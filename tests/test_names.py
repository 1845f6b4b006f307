"""One name, one thing: a class that is read about in one place is the one that is meant in another."""

import ast
from collections import defaultdict
from pathlib import Path

import seatrial

PACKAGE = Path(seatrial.__file__).parent


def test_no_class_has_the_name_of_another():
    found = defaultdict(list)
    for path in sorted(
        set(PACKAGE.rglob("*.py")) - set((PACKAGE / "compat").rglob("*.py"))
    ):  # which has verifiers' names
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
