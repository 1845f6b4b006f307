"""Files for tools around the project agree with what they repeat: the version, the targets, the checks."""

import re

import pytest
import tomli
import yaml

from tests.conftest import REPOSITORY

MAKEFILE = (REPOSITORY / "Makefile").read_text()
PHONY = re.search(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
TARGETS = sorted(set(PHONY[1].split()) - {"help", "writable"}) if PHONY else []


def test_the_citation_has_the_version_of_the_package():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    project = tomli.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert [citation[key] for key in ("version", "license", "abstract")] == [
        project[key] for key in ("version", "license", "description")
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_in_the_help_and_in_contributing(target):
    assert re.search(rf'^\t@echo "make {target} ', MAKEFILE, flags=re.MULTILINE)
    assert f"| `make {target}` |" in (REPOSITORY / "CONTRIBUTING.md").read_text()


def test_before_a_commit_git_runs_the_checks_of_make_check_but_the_tests():
    (local,) = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    check = re.search(r"^check: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert check
    wanted = [f"make {target}" for target in check[1].split() if not target.startswith("test")]
    assert [hook["entry"] for hook in local["hooks"]] == wanted
