"""V13: the accepted answer fails every twin, unless nobody looks at the value that was changed."""

from pathlib import Path

from seatrial.check.cases import ORACLE, CaseVerdict, Subject
from seatrial.check.checks import twins
from seatrial.check.reading.twin_folders import write_twin
from tests.check.checks.test_cheats import verdict
from tests.check.trying import Bench, accepted, make_subject
from tests.trial.support import ANSWER, write_task

JUDGE = f"""
import json
from pathlib import Path
EXPECTED = {{"load": 42.5, "kind": "steel"}}
answer = json.loads(Path("{ANSWER}").read_text())
right = answer["load"] == EXPECTED["load"]
Path("/logs/verifier/reward.txt").write_text(str(int(right)))
"""
RIGHT = '{"load": 42.5, "kind": "steel"}'
FILES = {
    "tests/test.sh": "#!/bin/sh\nexec python3 -B /tests/verify.py\n",
    "tests/verify.py": JUDGE,
    "solution/solve.sh": f"#!/bin/sh\necho '{RIGHT}' > {ANSWER}\n",
}


def subject_of(root: Path) -> Subject:
    return make_subject(root, accepted(ANSWER, RIGHT), **{ORACLE: verdict(ORACLE, 1.0)})


def test_a_value_that_nobody_looks_at(bench: Bench, tmp_path: Path) -> None:
    subject = subject_of(write_task(tmp_path / "task", files=FILES))
    verdicts: dict[str, CaseVerdict] = {}
    for twin, case in zip(twins.twins(subject), twins.cases(subject), strict=True):
        root = write_twin(subject.task.root, twin, tmp_path / "twins")
        assert {case.conditions.tests[twin.expected.file]} == {(root / "tests/verify.py").read_bytes()}
        verdicts[case.id] = verdict(case.id, bench.desk.run(root, "oracle").reward)
    found = twins.findings(subject, verdicts)
    assert [finding.id for finding in found.findings] == ["V13/expected-value-unused:verify.py:steel"]
    assert found.outcome.figures == {"twins": 2, "impossible": 1}
    finding = found.findings[0]
    assert "'steel' in tests/verify.py:4 changed to 'steel-twin'" in finding.message
    assert (finding.weight, finding.reproduce) == ("minor", "seatrial check tasks/task --case V13/verify.py/steel")


def test_no_verdict_is_no_finding(tmp_path: Path) -> None:
    subject = subject_of(write_task(tmp_path, files=FILES))
    silent = {case.id: verdict(case.id, None, "no sandbox") for case in twins.cases(subject)}
    assert len(silent) == 2
    assert not twins.findings(subject, silent).findings
    assert not twins.findings(subject, {}).findings


def test_without_an_answer_there_is_no_twin(tmp_path: Path) -> None:
    subject = make_subject(write_task(tmp_path, files=FILES))
    assert not list(twins.cases(subject))
    assert twins.findings(subject, {}).outcome.status == "skipped"


def test_samples_and_data_that_no_script_names_are_not_the_verifier(tmp_path: Path) -> None:
    files = {
        "tests/fixtures/expected.json": '{"load": 42.5}',
        "tests/expected_old.json": '{"load": 42.5}',
        "tests/truth.json": '{"load": 42.5}',
        "tests/inputs.json": '{"load": 42.5}',
        "tests/test.sh": "#!/bin/sh\ncat /tests/truth.json /tests/inputs.json /tests/fixtures/expected.json\n",
    }
    found = list(twins.twins(subject_of(write_task(tmp_path, files=files))))
    assert [(twin.expected.file, twin.instead) for twin in found] == [("truth.json", 127.5)]
