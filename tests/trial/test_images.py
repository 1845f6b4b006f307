"""Trials in the images their tasks ask for: named, built, and separate ones for verifiers."""

from pathlib import Path

import pytest

from seatrial.model.loaded_task import Task
from seatrial.tasks.load import load_task
from seatrial.trial.place import verifier_image
from seatrial.trial.rounds import rounds_of
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import needs_busybox, run_in_image, write_task

pytestmark = [needs_root, needs_busybox]

LOOK = """#!/bin/sh
{ pwd; id -u; echo "$GREETING"; ls /opt /place; } > /logs/verifier/seen.txt
if grep -qx right /place/answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
DOCKERFILE = "FROM test/small:1\nCOPY note /opt/note\nENV GREETING=hello\nWORKDIR /place\n"


def test_a_trial_takes_place_in_the_image_of_its_dockerfile(desk, images, tmp_path):
    files = {"environment/Dockerfile": DOCKERFILE, "environment/note": "a note", "tests/test.sh": LOOK}
    ran = run_in_image(
        desk, images, write_task(tmp_path / "task", files=files), "pwd; cat /opt/note; echo right > answer.txt"
    )
    assert ran.reward == 1.0
    assert ran.text("agent/stdout.txt") == "/place\na note"
    # What the Dockerfile has put in its place is not put into the working directory as well.
    assert ran.text("verifier/files/seen.txt").split() == [
        "/place",
        "0",
        "hello",
        "/opt:",
        "note",
        "/place:",
        "answer.txt",
    ]
    sandbox = ran.record.sandbox
    assert sandbox.image_digest is not None
    assert sandbox.reproducible
    assert ran.changes.added == ("/place/answer.txt",)


def test_loose_files_are_put_into_the_working_directory_of_a_named_image(desk, images, tmp_path):
    toml = '[environment]\ndocker_image = "test/small:1"\nworkdir = "/place"\n'
    files = {"environment/data.csv": "1,2", "tests/test.sh": LOOK}
    ran = run_in_image(
        desk, images, write_task(tmp_path / "task", toml=toml, files=files), "cat data.csv; echo right > answer.txt"
    )
    assert (ran.reward, ran.text("agent/stdout.txt")) == (1.0, "1,2")
    assert (ran.record.sandbox.image, ran.record.sandbox.image_asked) == ("test/small:1", "test/small:1")


def test_an_image_that_cannot_be_had_is_nobodys_zero(desk, images, tmp_path):
    toml = '[environment]\ndocker_image = "nobody/none:7"\n'
    ran = run_in_image(desk, images, write_task(tmp_path / "task", toml=toml), "true")
    assert ran.record.evaluation is None
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("setup", "ImageFetchError", True)
    assert "nobody/none:7" in ran.failure.message


def test_a_dockerfile_that_fails_is_nobodys_zero_and_tried_once(desk, images, tmp_path):
    files = {"environment/Dockerfile": "FROM test/small:1\nRUN false\n"}
    ran = run_in_image(desk, images, write_task(tmp_path / "task", files=files), "true")
    assert (ran.failure.cause, ran.failure.retryable) == ("BuildError", False)
    assert "Dockerfile:2" in ran.failure.message


SEPARATE = 'artifacts = ["/place/answer.txt"]\n[verifier]\nenvironment_mode = "separate"\n'


def test_a_separate_verifier_brings_its_tests_in_an_image_of_its_own(desk, images, tmp_path):
    bundled = f"{LOOK}cat /tests/golden.txt >> /logs/verifier/seen.txt\n"
    files = {
        "environment/Dockerfile": DOCKERFILE,
        "environment/note": "a note",
        "tests/Dockerfile": "FROM test/small:1\nCOPY test.sh /tests/test.sh\nRUN echo made here > /tests/golden.txt\n",
        "tests/test.sh": bundled,
    }
    root = write_task(tmp_path / "task", toml=SEPARATE, files=files, network="")
    ran = run_in_image(desk, images, root, "mkdir -p /opt; echo x > /opt/mine; echo right > answer.txt")
    assert (ran.reward, ran.run.isolation) == (1.0, "separate")
    seen = ran.text("verifier/files/seen.txt")
    assert "made here" in seen
    assert "mine" not in seen


def test_on_this_machines_own_system_the_same_tests_are_laid_out(desk, images, tmp_path):
    files = {"tests/Dockerfile": "FROM test/small:1\n", "tests/test.sh": LOOK}
    root = write_task(tmp_path / "task", toml=SEPARATE, files=files, network="", instruction="Do it.")
    ran = run_in_image(desk, images, root, "mkdir -p /place; echo right > /place/answer.txt", image="host")
    assert (ran.reward, ran.run.isolation) == (1.0, "separate")


def task_with(tmp_path: Path, toml: str, *files: str) -> Task:
    return load_task(write_task(tmp_path / "task", toml=toml, files=dict.fromkeys(files, ""), network=""))


IMAGE = '[verifier.environment]\ndocker_image = "tests:1"\n'
STEP = '[[steps]]\nname = "one"\n'
STEP_IMAGE = f'{STEP}[steps.verifier.environment]\ndocker_image = "step:1"\n'


@pytest.mark.parametrize(
    ("toml", "files", "image"),
    [
        ("", [], None),
        (IMAGE, [], "tests:1"),
        (IMAGE, ["tests/Dockerfile"], "tests:1"),
        ("", ["tests/Dockerfile"], "tests/Dockerfile"),
        (IMAGE + STEP, ["tests/Dockerfile"], "tests:1"),
        (IMAGE + STEP, ["tests/Dockerfile", "steps/one/tests/Dockerfile"], "steps/one/tests/Dockerfile"),
        (IMAGE + STEP_IMAGE, ["tests/Dockerfile", "steps/one/tests/Dockerfile"], "step:1"),
        (STEP, ["tests/Dockerfile"], "tests/Dockerfile"),
    ],
)
def test_the_nearest_image_for_a_verifier_counts(tmp_path, toml, files, image):
    task = task_with(tmp_path, toml, *files, "steps/one/instruction.md", "steps/one/tests/test.sh")
    request = verifier_image(rounds_of(task)[0])
    if image is None:
        assert request is None
    elif image.endswith("Dockerfile"):
        assert request is not None
        assert request.dockerfile == task.root / image
    else:
        assert request is not None
        assert request.reference == image
