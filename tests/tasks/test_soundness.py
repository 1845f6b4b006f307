"""Errors while a job is planned: what lint would find, without lint where the scripts show that there is nothing."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.model.loaded_task import BrokenTask
from seatrial.tasks.layout import digest_folder, list_files
from seatrial.tasks.lint import errors_of, lint
from seatrial.tasks.load import load_task, read_folder
from seatrial.tasks.soundness import is_sound

SOUND = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
TYPO = "#!/bin/sh\necho 1 > /logs/verifier/rewards.txt\n"
CALLS = "#!/bin/sh\npython3 /tests/run.py\n"
TOLD = {f"steps/{name}/instruction.md": "Go." for name in "ab"}
DECLARED = '[output]\npath = "/app/out.json"\n'
STEPS = '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n'


def errors(root, *, listed=True):
    files = list_files(root)
    outline = read_folder(root, root.name, files)
    assert not isinstance(outline, BrokenTask)
    return [] if is_sound(outline, files if listed else None) else errors_of(outline)


def by_lint(root):
    return [problem for problem in lint(load_task(root)) if problem.severity == "error"]


def without_test_script(root):
    (root / "tests/test.sh").unlink()
    return root


@pytest.mark.parametrize(
    ("toml", "files", "codes"),
    [
        ("", {}, []),
        ("", {"tests/test.sh": TYPO}, ["reward-near-miss"]),
        ("", {"tests/test.sh": SOUND.replace("\n", "\r\n")}, ["crlf-script"]),
        ("", {"tests/test.sh": CALLS, "tests/run.py": "'reward.json'"}, []),
        ("", {"tests/test.sh": CALLS, "tests/run.py": "'/logs/verifier/rewards.json'"}, ["reward-near-miss"]),
        ("", {"tests/test.sh": "#!/bin/sh\nexit 0\n"}, []),
        (DECLARED, {"tests/check.py": "open('/app/outs.json')"}, ["output-path-differs"]),
        (DECLARED, {"tests/check.py": "open('/app/out.json')"}, []),
        (STEPS, {**TOLD, "steps/b/tests/test.sh": TYPO}, []),
        (STEPS, {**TOLD, "steps/b/tests/test.sh": "#!/bin/sh\r\n"}, ["crlf-script"]),
        ('[environment]\nos = "windows"', {"tests/test.bat": "rem\r\necho 1 > reward.txt\r\n"}, []),
    ],
)  # fmt: skip
def test_what_is_found_is_what_lint_finds(make_task, toml, files, codes):
    root = make_task(toml=toml, files=files)
    assert [problem.code for problem in errors(root)] == codes
    assert errors(root) == errors(root, listed=False) == by_lint(root)


def test_a_missing_test_script_is_found_unless_an_image_brings_it(make_task):
    assert [problem.code for problem in errors(without_test_script(make_task()))] == ["missing-test-script"]
    toml = '[verifier.environment]\ndocker_image = "org/judge:1"\n'
    assert errors(without_test_script(make_task("bundled", toml=toml))) == []


def test_a_sound_task_is_known_without_lint(make_task):
    outline = read_folder(make_task(), "task")
    assert not isinstance(outline, BrokenTask)
    assert is_sound(outline)


def test_what_was_read_is_not_read_again_for_the_digest(make_task):
    root = make_task(files={"tests/test.sh": "#!/bin/sh\n. /tests/go.sh\n", "tests/go.sh": SOUND})
    files = list_files(root)
    outline = read_folder(root, "task", files)
    assert not isinstance(outline, BrokenTask)
    is_sound(outline, files)
    assert {"tests/test.sh", "tests/go.sh"} <= files.read.keys()
    assert digest_folder(root, files) == digest_folder(root)


scripts = st.sampled_from(
    [SOUND, TYPO, "#!/bin/sh\r\nreward.txt", "", "rewardkit", "open('/app/outs.json')", "rewards.txt"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(test=scripts, helper=scripts, toml=st.sampled_from(["", DECLARED]))
def test_planning_and_lint_agree(make_task, test, helper, toml):
    root = make_task("any", toml=toml, files={"tests/test.sh": test, "tests/helper.py": helper})
    assert errors(root) == by_lint(root)
