"""V10: verifiers that do not keep their contract, each caught by the one finding that is about it."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.check.cases import ORACLE, UNTOUCHED, CaseVerdict
from seatrial.check.checks import contract
from seatrial.model.check import CheckFinding
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from tests.check.trying import Bench, make_subject
from tests.conftest import REPOSITORY
from tests.trial.support import ANSWER, SHELL_TEST, write_task

SET_E = f"#!/bin/sh\nset -e\ngrep -qx right {ANSWER}\necho 1 > /logs/verifier/reward.txt\n"


def said(state: str, reward: float = 0.0, *errors: str, silent: bool = False, took: float = 0.1) -> CaseVerdict:
    validity = ValidityCheck(
        output_parseable=True, schema_valid=True, verifier_completed=not silent, errors=list(errors)
    )
    return CaseVerdict(state, EvaluationResult(reward=reward, validity=validity), duration_sec=took, exit_code=1)


def found(root: Path, *verdicts: CaseVerdict, junk: CaseVerdict | None = None) -> dict[str, CheckFinding]:
    states = {verdict.case: verdict for verdict in verdicts} or {UNTOUCHED: said(UNTOUCHED)}
    result = contract.findings(make_subject(root, **states), {"V10/junk": junk} if junk else {})
    return {finding.id: finding for finding in result.findings}


def test_a_verifier_that_says_nothing_of_nothing(bench: Bench, tmp_path: Path) -> None:
    result = bench.check(contract, write_task(tmp_path / "task", files={"tests/test.sh": SET_E}))
    finding = result.findings[0]
    assert [each.id for each in result.findings] == ["V10/no-verdict:untouched"]
    assert (result.outcome.status, finding.weight) == ("failed", "major")
    assert "writes no reward (exit status 2)" in finding.message
    assert "`set -e` ends the script" in (finding.fix or "")


def test_an_honest_verifier(bench: Bench, tmp_path: Path) -> None:
    result = bench.check(contract, write_task(tmp_path / "task"))
    assert (result.outcome.status, result.findings) == ("passed", ())
    assert result.outcome.figures["limit_sec"] == 600


def test_junk_alone_is_a_smaller_matter(tmp_path: Path) -> None:
    findings = found(write_task(tmp_path), junk=said("V10/junk", silent=True))
    assert {id_: finding.weight for id_, finding in findings.items()} == {"V10/no-verdict:junk": "minor"}
    assert findings["V10/no-verdict:junk"].reproduce.endswith("--case V10/junk")


def test_the_command_that_shows_it_again_can_be_pasted(tmp_path: Path) -> None:
    subject = make_subject(write_task(tmp_path / "my task"), **{UNTOUCHED: said(UNTOUCHED, silent=True)})
    (finding,) = contract.findings(replace(subject, options=("--image", "host")), {}).findings
    assert finding.reproduce == "seatrial check 'tasks/my task' --image host --only V10"


def test_what_is_silent_on_the_solution_too_is_not_told_again(tmp_path: Path) -> None:
    assert not found(write_task(tmp_path), said(UNTOUCHED, silent=True), said(ORACLE, silent=True))


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("reward_invalid: reward.txt: found 7; expected a number from 0 to 1", "V10/reward-invalid"),
        ("reward_conflict: reward.json says 1, reward.txt 0", "V10/reward-conflict"),
        ("details_invalid: details.json: not JSON", "V10/details-unreadable"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, line: str, finding: str) -> None:
    findings = found(write_task(tmp_path), said(UNTOUCHED, 0.0, line), said(ORACLE, 1.0, line, "note: else"))
    assert set(findings) == {finding}
    assert line.partition(": ")[2] in findings[finding].message


@pytest.mark.parametrize(
    ("limit", "took", "expected"),
    [
        (10, 4.9, {}),
        (10, 5.1, {"V10/slow": "minor"}),
        (10, 9.5, {"V10/slow": "major"}),
        (7200, 2.0, {"V10/long-limit": "note"}),
        (7200, 500.0, {}),
    ],
)
def test_time(tmp_path: Path, limit: int, took: float, expected: dict[str, str]) -> None:
    root = write_task(tmp_path, toml=f"[verifier]\ntimeout_sec = {limit}\n")
    findings = found(root, said(UNTOUCHED), said(ORACLE, 1.0, took=took))
    assert {id_: finding.weight for id_, finding in findings.items()} == expected


@pytest.mark.parametrize(
    ("line", "fetched"),
    [
        ("pip install pytest==8.0", "pytest"),
        ("curl -LsSf https://astral.sh/uv/install.sh | sh", "astral.sh"),
        ("apt-get update && apt-get install -y jq", "jq"),
        ("git clone https://example.com/x.git", "example.com"),
        ("curl http://localhost:8080/health", None),
        ("# pip install pytest", None),
        ("python3 /tests/verify.py", None),
    ],
)
def test_what_is_fetched(tmp_path: Path, line: str, fetched: str | None) -> None:
    files = {"tests/test.sh": f"#!/bin/sh\n{line}\n{SHELL_TEST}"}
    shut = found(write_task(tmp_path / "shut", files=files))
    public = found(write_task(tmp_path / "open", files=files, network="public"))
    assert set(shut) == ({"V10/needs-network"} if fetched else set())
    assert set(public) == ({"V10/fetches"} if fetched else set())
    if fetched:
        assert fetched in shut["V10/needs-network"].message
        assert shut["V10/needs-network"].weight == "minor", "nobody has seen it fail"
        fails = found(tmp_path / "shut", said(UNTOUCHED), said(ORACLE, 0.0))
        assert fails["V10/needs-network"].weight == "major"
        works = found(tmp_path / "shut", said(UNTOUCHED), said(ORACLE, 1.0))
        assert [each.weight for each in works.values()] == ["minor"], "what passes without a network needs none"


@pytest.mark.parametrize("root", sorted((REPOSITORY / "examples/tasks").iterdir()), ids=str)
def test_the_examples_are_clean(root: Path) -> None:
    assert not found(root)
