"""Python packages: the image's or the agent's as a whole, and the runner's never the agent's."""

import pytest

from seatrial.verify.facts import Change, Surroundings, SystemFacts, VerifierNeeds, find_named
from seatrial.verify.python_rules import (
    belongs_to_runner,
    entries_in_record,
    python_folder,
    replaced_distributions,
    uninstalled_distributions,
    why_not_python,
)

STDLIB, SITE = "/usr/lib/python3.11", "/usr/local/lib/python3.11/site-packages"
FACTS = SystemFacts(
    python={
        STDLIB: frozenset({"json", "os.py"}),
        SITE: frozenset({"pandas", "pandas-1.3.0.dist-info", "pytest", "pytest-8.0.dist-info", "six.py"}),
    }
)
AROUND = Surroundings(FACTS)
NEW, OLD = f"{SITE}/pandas-2.0.0.dist-info", f"{SITE}/pandas-1.3.0.dist-info"
UPGRADE = [Change(f"{NEW}/METADATA", "added"), Change(f"{OLD}/METADATA", "removed")]


def judged(path: str, kind: str = "added", around: Surroundings = AROUND) -> str | None:
    folder = python_folder(path, around.facts)
    assert folder is not None
    return why_not_python(Change(path, kind), folder, around)  # type: ignore[arg-type]


def test_the_innermost_folder_counts():
    assert python_folder(f"{SITE}/pandas/x.py", FACTS) == SITE
    assert python_folder(f"{STDLIB}/json/x.py", FACTS) == STDLIB
    assert python_folder(STDLIB, FACTS) is None
    assert python_folder("//", FACTS) is None


@pytest.mark.parametrize("kind", ["added", "modified", "removed"])
def test_a_package_of_the_image_is_no_mixture(kind):
    assert judged(f"{SITE}/pandas/core.py", kind) == "of the image"


def test_another_version_is_the_agents_as_a_whole():
    assert replaced_distributions(UPGRADE, FACTS) == {NEW: OLD}
    around = Surroundings(FACTS, replaced=frozenset({f"{SITE}/pandas", NEW, OLD}))
    for path, kind in (
        (f"{SITE}/pandas/core.py", "modified"),
        (f"{SITE}/pandas/new.py", "added"),
        (NEW + "/R", "added"),
    ):
        assert judged(path, kind, around) is None
    assert judged(f"{OLD}/METADATA", "removed", around) is None


def test_metadata_beside_the_old_ones_are_no_other_version():
    assert replaced_distributions(UPGRADE[:1], FACTS) == {}
    assert judged(f"{NEW}/METADATA") == "of the image"


def test_what_is_gone_as_a_whole_is_known():
    assert uninstalled_distributions([Change(f"{OLD}/METADATA", "removed")], FACTS) == {OLD}
    assert uninstalled_distributions([Change(f"{SITE}/pandas/x.py", "removed")], FACTS) == frozenset()


@pytest.mark.parametrize(
    ("instruction", "answer"),
    [
        ("Patch the pandas library.", None),
        ("pip install --upgrade pandas", None),
        ("Count the pandas in the zoo.", "of the image"),
    ],
)
def test_a_package_that_the_task_talks_about_as_one_is_the_agents(instruction, answer):
    around = Surroundings(FACTS, find_named([instruction]))
    assert judged(f"{SITE}/pandas/core.py", "modified", around) == answer


def test_the_runner_is_never_the_agents_whatever_the_task_says():
    named = find_named(["Install, upgrade and patch the pytest package, pluggy and pytest-cov."])
    around = Surroundings(FACTS, named, replaced=frozenset({f"{SITE}/pytest"}))
    assert judged(f"{SITE}/pytest/__init__.py", "modified", around) == "of the image"
    assert judged(f"{SITE}/pluggy/__init__.py", "added", around) == "a tool of the verifier"
    assert judged(f"{SITE}/pytest_cov/plugin.py", "added", around) == "a tool of the verifier"


def test_what_the_verifier_installs_belongs_to_the_runner():
    around = Surroundings(FACTS, needs=VerifierNeeds(frozenset({"scikit-learn"})))
    assert belongs_to_runner("scikit_learn", around)
    assert not belongs_to_runner("numpy", around)


def test_a_record_tells_what_is_a_distributions_own():
    record = 'pandas/__init__.py,sha256=x,1\n../../bin/p,,\nsix.py,,\n__pycache__/six.pyc,,\n"odd,name/x",,\n'
    assert entries_in_record(record) == {"pandas", "six.py", "odd,name"}
