"""What the documents say about the code: packages, layers, files and functions that are really there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import tomli

from seatrial.verifier_kit import fenced_blocks
from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src/seatrial"
ARCHITECTURE = (REPOSITORY / "docs/architecture.md").read_text()
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text()
FILES = re.findall(r"`([\w/]+\.py)`", ARCHITECTURE)
FUNCTIONS = re.findall(r"`(\w+)\(\)`", ARCHITECTURE)
PLACED = re.findall(r"`([\w/]+\.py)`,? `(\w+)\(\)`", ARCHITECTURE) + [
    (file, name) for name, file in re.findall(r"`(\w+)\(\)`\s+in\s+`([\w/]+\.py)`", ARCHITECTURE)
]


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The functions and methods of a module."""
    nodes = ast.walk(ast.parse(path.read_bytes()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def packages() -> set[str]:
    """What lies directly in our package, as the table names it."""
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    return modules | {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_the_table_of_packages_is_complete():
    table = CONTRIBUTING.partition("| Package | Holds |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([\w.]+)` \|", table, flags=re.MULTILINE)) == packages()


def test_the_layers_are_those_that_are_checked():
    shown = next(block.body for block in fenced_blocks(ARCHITECTURE) if block.body.rstrip().endswith("errors"))
    contract = tomli.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    there = {name.removesuffix(".py") for name in packages()}
    layers = [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]
    assert [line.split(" | ") for line in shown.strip().splitlines()] == [
        [name for name in layer if name in there] for layer in layers
    ]


@pytest.mark.parametrize("file", sorted(set(FILES)))
def test_files_that_are_named_exist(file):
    assert (SOURCE / file).is_file()


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS)))
def test_functions_that_are_named_exist(name):
    assert any(name in defined_in(path) for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize(("file", "name"), sorted(set(PLACED)))
def test_functions_are_where_they_are_said_to_be(file, name):
    assert name in defined_in(SOURCE / file)


def test_the_page_names_enough_to_be_checked():
    assert len(set(FILES)) > 20
    assert len(set(PLACED)) > 20
