"""Every name, method and argument of verifiers 0.1.9, 0.2.1 and 0.3.1: ours, or in the tables of the docs."""

import re
from fnmatch import fnmatchcase

import pytest

from seatrial.compat import table
from seatrial.compat.table import HOMES
from seatrial.env.client import ClientConfig
from tests.compat.surface import NAMES, accepts, lacking, named
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/from-verifiers.md").read_text()


def listed(heading):
    """The code in the first column of the table below a heading."""
    rows = [line for line in PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0].splitlines() if line[:1] == "|"]
    return [code for row in rows[2:] for code in re.findall(r"`([^`]+)`", row.split("|")[1])]


NOT_HERE = listed("Not here")
WITHOUT_EFFECT = listed("Accepted without effect")


def is_listed(*spellings):
    return any(fnmatchcase(spelling, pattern) for spelling in spellings for pattern in NOT_HERE)


@pytest.mark.parametrize("name", sorted(HOMES))
def test_every_name_of_the_table_is_there(name):
    assert named(name) is not None


def test_every_name_of_verifiers_is_ours_or_said_not_to_be():
    known = set(HOMES) | set(table.NAMES)
    everything = [(module, name) for module, names in NAMES.items() for name in names if name not in known]
    modules = list(table.MODULES)
    missing = [
        f"{module}.{name}"
        for module, name in everything
        if not any(module == each or module.startswith(f"{each}.") for each in modules)
        and not is_listed(name, f"{module}.{name}")
    ]
    assert missing == []


def test_every_method_and_argument_of_verifiers_is_taken_or_said_not_to_be():
    assert sorted(each for each in lacking() if not is_listed(each)) == []


def test_the_page_says_of_each_name_and_module_that_is_not_here():
    assert sorted(each for each in [*table.NAMES, *table.MODULES] if not is_listed(each)) == []


def test_what_the_page_says_is_not_here_is_not():
    unknown = {f"{module}.{name}" for module, names in NAMES.items() for name in names if name not in HOMES}
    bare = {name.rpartition(".")[2] for name in unknown}
    spellings = lacking() | unknown | bare | set(table.NAMES) | set(table.MODULES)
    assert [pattern for pattern in NOT_HERE if not any(fnmatchcase(each, pattern) for each in spellings)] == []


@pytest.mark.parametrize("spelled", WITHOUT_EFFECT)
def test_what_has_no_effect_is_taken(spelled):
    function, argument = spelled.removesuffix(")").split("(")
    name, _, method = function.partition(".")
    assert accepts(getattr(named(name), method) if method else named(name), argument)


def test_the_address_of_a_model_has_both_names():
    assert ClientConfig(api_base_url="http://127.0.0.1:1").base_url == "http://127.0.0.1:1"


def test_the_tables_were_found():
    assert len(NOT_HERE) > 100
    assert len(WITHOUT_EFFECT) > 20
