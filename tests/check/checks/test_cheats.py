"""V8 on tasks that can be cheated, each in one way, and on one that cannot. See also test_code_cheats.py."""

import shutil
import subprocess
from pathlib import Path

import pytest

from seatrial.check.cases import ORACLE, UNTOUCHED, Case, CaseVerdict
from seatrial.check.checks import cheats
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from tests.check.trying import Bench, accepted, make_subject
from tests.trial.support import ANSWER, SHELL_TEST, write_task

RIGHT = "the right answer of 1234 words\n"
JUDGED_BY_CONTENT = f"""#!/bin/sh
if [ "$(cat {ANSWER})" = "{RIGHT.strip()}" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
ACCEPTED = accepted(ANSWER, RIGHT)


def verdict(case: str, reward: float | None = 0.0, failure: str | None = None) -> CaseVerdict:
    if reward is None:
        return CaseVerdict(case, None, failure=failure)
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True)
    return CaseVerdict(case, EvaluationResult(reward=reward, validity=validity))


def ids(found) -> set[str]:
    return {finding.id for finding in found.findings}


def all_cases(root: Path) -> list[Case]:
    return list(cheats.cases(make_subject(root, ACCEPTED, **{UNTOUCHED: verdict(UNTOUCHED)})))


@pytest.mark.whole
def test_an_honest_verifier_is_cheated_by_none(bench: Bench, tmp_path: Path) -> None:
    found = bench.check(cheats, write_task(tmp_path / "task", files={"tests/test.sh": JUDGED_BY_CONTENT}), ACCEPTED)
    assert (found.outcome.status, ids(found)) == ("passed", set())
    tags = {name: set(figure["tags"]) for name, figure in found.outcome.figures["cheats"].items()}
    assert "planted_verifier_files" in tags["planted-reward"]
    assert "processes_left_running" in tags["background-writer"]
    assert "program_changed" in tags["programs"]


def test_a_folder_of_the_agent_on_the_path_does_not_pay(bench: Bench, tmp_path: Path) -> None:
    files = {"tests/test.sh": "#!/bin/sh\nPATH=/app/bin:$PATH\n" + SHELL_TEST.removeprefix("#!/bin/sh\n") + "diff\n"}
    found = bench.check(cheats, write_task(tmp_path / "task", files=files), only=["stand-in", "programs"])
    assert ids(found) == set()


def test_expected_results_behind_a_link(bench: Bench, tmp_path: Path) -> None:
    judge = (
        f"#!/bin/sh\nif cmp {ANSWER} /tests/expected.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    )
    root = write_task(tmp_path / "task", files={"tests/test.sh": judge, "tests/expected.txt": RIGHT})
    found = bench.check(cheats, root, ACCEPTED, only=["stand-in", "expected.txt", "search"])
    assert ids(found) == {"V8/cheat-pays:linked-output/expected.txt"}


@pytest.mark.parametrize(
    ("shipped", "cheats_that_pay"),
    [
        ("expected_result.txt", {"search", "shipped-answer"}),
        ("old/notes.bak", {"shipped-answer"}),
        ("old/answer.txt", set()),  # a file that the instruction names
    ],
)
def test_an_answer_that_lies_in_the_environment(
    bench: Bench, tmp_path: Path, shipped: str, cheats_that_pay: set[str]
) -> None:
    files = {"tests/test.sh": JUDGED_BY_CONTENT, f"environment/{shipped}": RIGHT}
    root = write_task(tmp_path / "task", files=files)
    found = bench.check(cheats, root, ACCEPTED, only=["stand-in", "/search", "shipped-answer"])
    assert {finding.subject for finding in found.findings} == cheats_that_pay


@pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")
def test_an_answer_in_the_git_history(bench: Bench, tmp_path: Path) -> None:
    root = write_task(tmp_path / "task", files={"tests/test.sh": JUDGED_BY_CONTENT, "environment/a": RIGHT})
    folder = root / "environment"
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "a"], [*who, "commit", "-qm", "x"], ["rm", "-q", "a"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    (folder / ".git").rename(folder / "repository.git")  # what is called .git is not part of a task
    fixed = "mv /app/repository.git /app/.git\n"
    subject = make_subject(root, ACCEPTED, **{UNTOUCHED: verdict(UNTOUCHED)})
    case = next(case for case in cheats.cases(subject) if case.id == "V8/git-history")
    assert bench.desk.run(root, fixed + (case.command or "")).reward == 1.0


def test_what_nothing_is_worth_is_no_pay_of_a_cheat(tmp_path: Path) -> None:
    subject = make_subject(write_task(tmp_path), ACCEPTED, **{UNTOUCHED: verdict(UNTOUCHED, 0.25)})
    verdicts = {case.id: verdict(case.id, 0.25) for case in cheats.cases(subject)}
    assert cheats.findings(subject, verdicts).outcome.status == "passed"
    verdicts["V8/search"] = verdict("V8/search", 0.5)
    assert ids(cheats.findings(subject, verdicts)) == {"V8/cheat-pays:search"}


def test_of_several_links_the_best_is_told(tmp_path: Path) -> None:
    root = write_task(tmp_path, files={"tests/golden_fail.txt": "a", "tests/golden_pass.txt": "b"})
    subject = make_subject(root, ACCEPTED, **{UNTOUCHED: verdict(UNTOUCHED)})
    paid = {"V8/linked-output/golden_pass.txt": 1.0, "V8/linked-output/golden_fail.txt": 0.2}
    found = cheats.findings(
        subject, {each.id: verdict(each.id, paid.get(each.id, 0.0)) for each in cheats.cases(subject)}
    )
    assert ids(found) == {"V8/cheat-pays:linked-output/golden_pass.txt"}
    assert found.findings[0].weight == "major"


def test_without_anything_to_compare_with_nothing_is_said(tmp_path: Path) -> None:
    subject = make_subject(write_task(tmp_path), ACCEPTED, **{UNTOUCHED: verdict(UNTOUCHED)})
    paid = {case.id: verdict(case.id, 1.0) for case in cheats.cases(subject) if case.command}
    assert cheats.findings(subject, paid).outcome.status == "skipped"
    failed = {**paid, "V8/stand-in": verdict("V8/stand-in", None, "no sandbox")}
    assert cheats.findings(subject, failed).outcome.status == "skipped"
    passes = make_subject(write_task(tmp_path / "b"), ACCEPTED, **{UNTOUCHED: verdict(UNTOUCHED, 1.0)})
    assert cheats.findings(passes, {**paid, "V8/stand-in": verdict("V8/stand-in")}).outcome.status == "skipped"


def test_no_output_and_no_answer_leave_the_cheats_that_need_none(tmp_path: Path) -> None:
    root = write_task(tmp_path, instruction="Start the service.\n")
    cases = list(cheats.cases(make_subject(root, **{UNTOUCHED: verdict(UNTOUCHED), ORACLE: verdict(ORACLE, 1.0)})))
    assert {"V8/planted-reward", "V8/programs"} <= {case.id for case in cases}
    assert not any(case.edits for case in cases)
    assert not {"V8/search", "V8/stand-in", "V8/git-history"} & {case.id for case in cases}


def test_ids_of_cases_are_unique(tmp_path: Path) -> None:
    names = [case.id for case in all_cases(write_task(tmp_path, files={"tests/a.txt": "a", "tests/b.txt": "b"}))]
    assert len(names) == len(set(names))
