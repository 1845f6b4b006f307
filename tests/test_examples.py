"""The example tasks, for real: their verifiers judge the golden answers, the reference solution and an empty desk.

A folder below examples/tasks is a test: nothing has to be added here for a new one.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from seatrial import verifier_kit
from seatrial.model.record import outcome_of
from seatrial.scoring.ingest import ingest
from seatrial.tasks.lint import lint
from seatrial.tasks.load import load_dataset
from seatrial.verify.artifacts import collect_artifacts, collect_output
from tests.conftest import REPOSITORY

TASKS = {task.id: task for task in load_dataset(REPOSITORY / "examples" / "tasks").tasks}

pytestmark = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@pytest.fixture
def desk(tmp_path):
    """A root folder as a sandbox would have it; a service an answer leaves running ends with the test."""
    (tmp_path / "workspace").mkdir()
    yield tmp_path
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        os.kill(json.loads((tmp_path / "workspace/service.json").read_text())["pid"], signal.SIGKILL)


def run(script: Path, desk: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KIT_ROOT": str(desk), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(["sh", script], cwd=desk / "workspace", env=environment, check=True, timeout=60)


def set_up(task, desk: Path) -> None:
    if (task.root / "environment").exists():
        shutil.copytree(task.root / "environment", desk / "workspace", dirs_exist_ok=True)


def judge(task, desk: Path):
    """Run the verifier and ingest what it wrote, as a trial does."""
    run(task.root / "tests/test.sh", desk)
    output = collect_output(desk / PurePosixPath(task.output.path).relative_to("/"), task.output)
    return ingest(task, collect_artifacts(desk / "logs/verifier", task.verifier, output))


def judge_golden(task, desk: Path, kind: str):
    set_up(task, desk)
    shutil.copytree(task.root / "golden" / kind, desk, dirs_exist_ok=True)
    if (desk / "start.sh").exists():
        run(desk / "start.sh", desk)
    return judge(task, desk)


def test_the_right_answer_passes(task, desk):
    result = judge_golden(task, desk, "pass")
    assert result.reward >= 0.95
    assert result.breakdown
    assert [line for line in result.validity.errors if not line.startswith("note: ")] == []


def test_the_wrong_answer_fails_with_evidence(task, desk):
    result = judge_golden(task, desk, "fail")
    assert result.reward <= 0.5
    assert result.validity.output_parseable
    assert result.validity.verifier_completed
    assert any(entry["score"] < entry["max_score"] for entry in (result.breakdown or {}).values())


def test_the_reference_solution_passes(task, desk):
    set_up(task, desk)
    run(task.root / "solution/solve.sh", desk)
    assert judge(task, desk).reward >= 0.95


def test_doing_nothing_earns_nothing_and_is_no_verifier_error(task, desk):
    set_up(task, desk)
    result = judge(task, desk)
    assert (result.reward, outcome_of(result)) == (0.0, "no_output")
    assert result.validity.verifier_completed


def test_it_is_free_of_lint(task, desk):
    assert lint(task) == []


def test_its_verifier_kit_is_the_current_one(task, desk):
    assert (task.root / "tests/verifier_kit.py").read_bytes() == Path(verifier_kit.__file__).read_bytes()


def test_inputs_the_verifier_keeps_a_copy_of_are_the_same(task, desk):
    for given in (task.root / "environment").rglob("*"):
        copy = task.root / "tests" / given.name
        assert not copy.exists() or copy.read_bytes() == given.read_bytes()
