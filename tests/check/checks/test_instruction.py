"""V11: hidden files and keys are found, and nothing that an agent could know is called hidden."""

from pathlib import Path

import pytest

from seatrial.check.checks import instruction
from tests.check.trying import make_subject
from tests.conftest import REPOSITORY
from tests.trial.support import write_task

OUT = "/app/result.json"
TEST = f"""
import json
from pathlib import Path
def test_result():
    data = json.loads(Path("{OUT}").read_text())
    assert data["total_mass"] == 3
    assert data["span"] == 4
"""
SOLVE = f"""echo '{{"total_mass": 3, "span": 4}}' > {OUT}"""
TOLD = f"Write the total mass and the `span` to `{OUT}`.\n"


def ids(root: Path) -> list[str]:
    assert not list(instruction.cases(make_subject(root)))
    return [finding.id for finding in instruction.findings(make_subject(root), {}).findings]


def task(folder: Path, told: str, test: str = TEST, **files: str) -> Path:
    contents = {"tests/test_result.py": test, "solution/solve.sh": SOLVE}
    extra = {name.replace("__", "/"): text for name, text in files.items()}
    return write_task(folder, instruction=told, files={**contents, **extra})


def test_everything_is_told(tmp_path: Path) -> None:
    assert ids(task(tmp_path, TOLD)) == []


def test_tests_in_other_languages_are_not_read_and_do_not_pass(tmp_path: Path) -> None:
    outcome = instruction.findings(make_subject(write_task(tmp_path / "one")), {}).outcome
    assert (outcome.status, outcome.reason) == ("skipped", "only tests in Python are read, and the task has none")


def test_a_key_that_only_the_tests_know(tmp_path: Path) -> None:
    root = task(tmp_path, f"Write the total mass to `{OUT}`.\n")
    assert ids(root) == ["V11/key-not-named:span"]
    finding = instruction.findings(make_subject(root), {}).findings[0]
    assert finding.message.startswith("tests/test_result.py:7 reads the key `span` of /app/result.json")
    assert (finding.weight, finding.reproduce) == ("major", f"seatrial check tasks/{root.name} --only V11")


def test_a_file_that_only_the_tests_know(tmp_path: Path) -> None:
    assert ids(task(tmp_path, "Find the total mass and the span.\n")) == ["V11/path-not-named:/app/result.json"]


def test_another_file_than_the_one_that_is_asked_for(tmp_path: Path) -> None:
    root = task(tmp_path, "Write total mass and span, the result, to `/app/answer.json`.\n")
    finding = instruction.findings(make_subject(root), {}).findings[0]
    assert finding.id == "V11/path-not-named:/app/result.json"
    assert finding.message.endswith("it asks for /app/answer.json, which no test reads")


@pytest.mark.parametrize(
    ("told", "files"),
    [
        (f"Follow `/app/spec.md` and write to `{OUT}`.\n", {"environment__spec.md": "total_mass, span"}),
        (f"Follow `/app/spec.md` and write to `{OUT}`.\n", {}),  # of the image: what it says is not known
        ("Write total mass and span into the result file.\n", {}),  # the name may be guessed
        (f"Write total mass and span to `{OUT}`.\n", {"solution__solve.sh": "echo nothing"}),
        ("Repair `/app/tool.py`.\n", {"environment__tool.py": "total_mass span", "environment__result.json": "{}"}),
    ],
    ids=["in the environment", "in the image", "guessed", "not of the solution", "an input"],
)
def test_what_an_agent_may_know(tmp_path: Path, told: str, files: dict[str, str]) -> None:
    assert ids(task(tmp_path, told, **files)) == []


def test_precision_is_a_note_where_numbers_are_written(tmp_path: Path) -> None:
    test = TEST + "    assert data['span'] == pytest.approx(4, rel=0.01)\n"
    assert ids(task(tmp_path / "a", TOLD, test)) == ["V11/tolerance-not-named:test_result.py"]
    result = instruction.findings(make_subject(tmp_path / "a"), {})
    assert (result.outcome.status, result.findings[0].weight) == ("passed", "note")
    assert ids(task(tmp_path / "b", f"{TOLD}Round to two decimals.\n", test)) == []


def test_a_task_with_steps_is_left_alone(tmp_path: Path) -> None:
    root = write_task(
        tmp_path,
        toml='[[steps]]\nname = "one"\n',
        files={"steps/one/instruction.md": "Do it.\n", "steps/one/tests/test.sh": "#!/bin/sh\n"},
    )
    assert instruction.findings(make_subject(root), {}).outcome.status == "skipped"


@pytest.mark.parametrize("root", sorted((REPOSITORY / "examples/tasks").iterdir()), ids=lambda root: root.name)
def test_the_examples_are_clean(root: Path) -> None:
    assert ids(root) == []
