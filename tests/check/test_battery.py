"""The battery on tasks in memory: what is found, what is not, what time and failures do, and the grade of it all."""

import asyncio
import datetime as dt
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from seatrial.check.battery import CHECKS, BatteryPlan, TimeToTry
from seatrial.check.cases import ORACLE, UNTOUCHED, Case, CaseVerdict, CheckResult, Subject
from seatrial.check.checks import nothing, oracle
from seatrial.check.chosen import NO_ANSWER
from seatrial.check.grade import fails, grade_of, incompleteness, regraded
from seatrial.errors import SandboxError
from seatrial.model.check import CheckFinding, CheckId, CheckOutcome, TaskCheck, Weight
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.testing.fake import FakeBackend, answer
from seatrial.trial.end_state import Edit, StateBench
from seatrial.trial.verification import USUAL_CONDITIONS
from tests.check.trying import make_subject
from tests.check.worlds import GOLDEN, RIGHT, World, fair, ids, make_task
from tests.trial.support import ANSWER, write_task

OWN = tuple(check for check in CHECKS if check.CHECK in ("V1", "V2", "V3"))
PLAN = BatteryPlan(checks=OWN)


def a_check(cases: Iterable[Case], findings=None):
    """A check of a test, with cases of its own; it finds nothing unless told."""

    def nothing_found(_: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
        return CheckResult(CheckOutcome(check="V5", status="passed", figures={"seen": sorted(verdicts)}))

    return SimpleNamespace(CHECK="V5", TITLE="a test", cases=lambda _: cases, findings=findings or nothing_found)


def reward_of(reward: float) -> EvaluationResult:
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True)
    return EvaluationResult(reward=reward, validity=validity)


def edited(name: str, content: bytes = b"x", **others) -> Case:
    return Case(f"V5/{name}", "V5", ORACLE, (Edit(ANSWER, content),), **others)


def test_a_good_verifier_gets_an_a_from_every_state_and_case(tmp_path):
    world = World()
    check = world.check(make_task(tmp_path), tmp_path, PLAN)
    assert (check.grade, check.findings) == ("A", ())
    assert [(each.check, each.status, each.tried) for each in check.outcomes] == [
        ("V1", "passed", 1),
        ("V2", "passed", 6),
        ("V3", "passed", 2),
    ]
    assert (check.states, check.verifications, check.oracle_reward) == (4, len(world.judged), 1.0)
    shown = [files.get(ANSWER) for files in world.judged]
    assert shown.count(None) == 2, "nobody did anything, and the output was removed"
    assert {RIGHT, b"wrong\n", b"", b"{}\n"} < set(shown)


@pytest.mark.parametrize(
    ("verify", "found", "grade"),
    [
        (lambda _: "1", {"V2/reward-for-nothing:untouched", "V3/golden-fail-accepted:golden/fail"}, "F"),
        (lambda _: "0", {"V1/solution-rejected", "V3/golden-pass-rejected:golden/pass"}, "F"),
        (lambda files: "0.25" if fair(files) == "0" else "1", {"V2/reward-for-nothing:untouched"}, "C"),
        (
            lambda files: "1" if files.get(ANSWER) else "0",
            {
                *(f"V2/reward-for-nothing:{kind}" for kind in ("whitespace", "junk", "braces")),
                "V3/golden-fail-accepted:golden/fail",
            },
            "F",
        ),
        (lambda files: None if files.get(ANSWER) == b"" else fair(files), {"V2/no-verdict"}, "B"),
        (
            lambda files: "0.6" if fair(files) == "1" else "0",
            {"V1/solution-rejected", "V3/golden-pass-rejected:golden/pass"},
            "F",
        ),
    ],
    ids=["always 1", "always 0", "a share for all", "any content", "dies on an empty file", "never a pass"],
)
def test_a_bad_verifier_is_caught(tmp_path, verify, found, grade):
    check = World(verify).check(make_task(tmp_path), tmp_path, PLAN)
    assert (ids(check), check.grade) == (found, grade)
    assert all(each.reproduce.startswith("seatrial check tasks/one --case V") for each in check.findings)


def test_a_solution_that_is_rejected_for_want_of_a_tool_is_told_with_the_tool(tmp_path):
    subject = make_subject(make_task(tmp_path))
    verdict = CaseVerdict("V1/oracle", reward_of(0.0), "fail", log="/tests/test.sh: 3: pytest: not found\n")
    (found,) = oracle.findings(replace(subject, states={ORACLE: verdict}), {}).findings
    assert (found.code, found.message.rpartition("; ")[2]) == ("solution-rejected", "the verifier did not find pytest")
    assert "image" in (found.fix or "")


@pytest.mark.parametrize(
    ("reward", "threshold", "weight"), [(0.0, 1.0, "critical"), (0.9, 1.0, "critical"), (0.6, 0.5, "major")]
)
def test_a_solution_that_does_not_pass_is_rejected(tmp_path, reward, threshold, weight):
    subject = make_subject(make_task(tmp_path))
    verdict = CaseVerdict("V1/oracle", reward_of(reward), "fail")
    (found,) = oracle.findings(replace(subject, states={ORACLE: verdict}, pass_threshold=threshold), {}).findings
    assert (found.code, found.weight) == ("solution-rejected", weight)


def test_outputs_at_the_last_step_are_compared_with_no_work_at_that_step(tmp_path):
    """A share that it gives to everybody is not a reward for an output of junk."""

    def gets(reward: float) -> CaseVerdict:
        return CaseVerdict("V2", reward_of(reward), "fail")

    subject = make_subject(make_task(tmp_path, toml=f'[output]\npath = "{ANSWER}"\n'))
    subject = replace(subject, states={UNTOUCHED: gets(0.25)}, trials={UNTOUCHED: gets(0.0)})
    found = nothing.findings(subject, {"V2/junk": gets(0.25), "V2/empty": gets(0.5)}).findings
    assert [each.id for each in found] == ["V2/reward-for-nothing:empty"]


def test_what_the_author_accepts_counts_for_nothing(tmp_path):
    toml = '[check]\naccept = ["V2/reward-for-nothing:*"]\n'
    task = make_task(tmp_path, toml=toml)
    check = World(lambda files: "0.25" if fair(files) == "0" else "1").check(task, tmp_path, PLAN)
    assert [(each.accepted, each.counts) for each in check.findings] == [(True, False)]
    assert check.grade == "A"


def test_what_the_author_says_of_the_solution_is_what_it_must_get(tmp_path):
    task = make_task(tmp_path, toml="[check]\noracle_reward = 0.5\n")
    check = World(lambda files: "0.5" if fair(files) == "1" else "0").check(task, tmp_path, PLAN)
    assert ids(check) == {"V3/golden-pass-rejected:golden/pass"}


def test_without_a_solution_and_golden_answers_it_is_a_b_with_the_reason(tmp_path):
    check = World().check(write_task(tmp_path / "one"), tmp_path, PLAN)
    assert check.grade == "B"
    assert "no accepted answer" in check.reasons[0]
    assert {each.check: each.status for each in check.outcomes} == {"V1": "skipped", "V2": "passed", "V3": "skipped"}


def test_a_task_whose_sandboxes_cannot_be_made_has_no_grade(tmp_path, monkeypatch):
    broken = FakeBackend(lambda _, __: answer(), fail_on={"create": SandboxError("no room on this machine")})
    monkeypatch.setattr(World, "backend", lambda _: broken)
    check = World().check(make_task(tmp_path), tmp_path, PLAN)
    assert check.grade is None
    assert "no room on this machine" in check.reasons[0]
    assert check.findings == ()


def test_a_check_that_raises_is_an_error_of_that_check_alone(tmp_path):
    def fall(*_: object):
        raise ZeroDivisionError("of mine")

    for broken in (
        SimpleNamespace(CHECK="V5", TITLE="", cases=fall, findings=fall),
        a_check([], findings=fall),
    ):
        check = World().check(make_task(tmp_path / broken.TITLE), tmp_path, replace(PLAN, checks=(*OWN, broken)))
        assert check.outcomes[-1].status == "error"
        assert "ZeroDivisionError: of mine" in (check.outcomes[-1].reason or "")
        assert check.grade == "B"


def test_cases_worth_more_go_first_and_those_without_time_are_counted(tmp_path):
    cases = [edited(f"case-{worth}", str(worth).encode(), worth=worth) for worth in range(5)]
    world = World()
    plan = BatteryPlan((a_check(cases),), time=TimeToTry(60.0, 1))
    world.check(make_task(tmp_path), tmp_path, plan)
    tried = [files[ANSWER] for files in world.judged if files.get(ANSWER, b"").isdigit()]
    assert tried == [b"4", b"3", b"2", b"1", b"0"]
    late = World().check(tmp_path / "one", tmp_path / "late", replace(plan, time=TimeToTry(0.0, 1)))
    assert (late.outcomes[0].tried, late.outcomes[0].left_out) == (0, 5)
    assert (late.outcomes[0].out_of_time, late.out_of_time) == (5, 5)
    assert (late.grade, late.reasons) == ("A", ("nothing was found",)), "the budget has no part in the grade"
    assert "5 verifications" in incompleteness(late)


def test_the_time_for_which_a_verifier_waits_for_a_processor_is_not_taken_from_the_budget(tmp_path, monkeypatch):
    really = StateBench.judge

    def tried_with(wait_sec: float) -> tuple[int, int]:
        async def take_ten_seconds(self, *arguments, **named):
            judged = await really(self, *arguments, **named)
            run = judged.judgement.run.model_copy(update={"duration_sec": 10.0, "cpu_wait_sec": wait_sec})
            return replace(judged, judgement=replace(judged.judgement, run=run))

        monkeypatch.setattr(StateBench, "judge", take_ten_seconds)
        cases = [edited(f"case-{number}", str(number).encode()) for number in range(5)]
        folder = tmp_path / f"{wait_sec:g}"
        plan = BatteryPlan((a_check(cases),), time=TimeToTry(25.0, 1))
        outcome = World().check(make_task(folder), folder, plan).outcomes[0]
        return outcome.tried, outcome.out_of_time

    assert tried_with(0.0) == (3, 2)
    assert tried_with(9.0) == (5, 0)


def test_checks_that_ran_nothing_are_not_run_and_no_pass(tmp_path):
    plan = BatteryPlan(time=TimeToTry(0.0, 1))
    check = World().check(make_task(tmp_path), tmp_path, plan)
    how = {each.check: each.status for each in check.outcomes}
    assert {name for name, status in how.items() if status == "not_run"} == {*("V4", "V5", "V6", "V7", "V8", "V9")}
    assert {name for name, status in how.items() if status == "passed"} == {"V1", "V2", "V3", "V10"}
    assert all("the budget had no room" in (each.reason or "") for each in check.outcomes if each.status == "not_run")
    assert all(each.tried == 0 for each in check.outcomes if each.status == "not_run")


def test_a_file_that_the_verifier_makes_itself_is_no_accusation(tmp_path):
    """A wrong value, another form or hostile bytes in its place are never judged."""
    world = World(lambda files: "1" if files.get("/app/program") else "0")
    world.rewrites = {ANSWER: RIGHT}
    solved = {"solution/solve.sh": "#!/bin/sh\ninstall program\n"}
    world.agents = {"solve.sh": lambda sandbox: sandbox.files.update({"/app/program": b"run me"})}
    root = make_task(tmp_path, solved, f'[output]\npath = "{ANSWER}"\n')
    for name in ("pass", "fail"):
        shutil.rmtree(root / "golden" / name)
    varied = tuple(each for each in CHECKS if each.CHECK in ("V5", "V6", "V7", "V9"))
    check = world.check(root, tmp_path, BatteryPlan(varied))
    assert ids(check) == set()
    how = {each.check: (each.status, each.reason or "") for each in check.outcomes}
    assert how["V5"][0] == "skipped"
    assert f"the verifier makes {ANSWER} itself" in how["V5"][1]
    assert any(f"the verifier makes {ANSWER} itself" in reason for reason in check.reasons)


def test_what_fell_once_is_only_noted_of_a_verifier_that_is_flaky(tmp_path):
    def found(code: str, check: CheckId, weight: Weight):
        each = CheckFinding(check=check, code=code, weight=weight, message="m", reproduce="r")
        outcome = CheckOutcome(check=check, status="failed")
        return SimpleNamespace(
            CHECK=check, TITLE="", cases=lambda _: (), findings=lambda *_: CheckResult(outcome, [each])
        )

    fell = found("compact", "V6", "major")
    for others, expected in (((found("flaky", "V4", "critical"),), ("note", "passed")), ((), ("major", "failed"))):
        folder = tmp_path / expected[0]
        check = World().check(make_task(folder), folder, BatteryPlan((*others, fell)))
        assert (check.findings[-1].weight, check.outcomes[-1].status) == expected


def test_a_case_that_does_not_end_is_given_up_when_it_has_had_all_of_the_time(tmp_path, monkeypatch):
    really = StateBench.judge

    async def hang(self, end, folder, edits=(), conditions=USUAL_CONDITIONS):
        if edits:
            await asyncio.Event().wait()
        return await really(self, end, folder, edits, conditions)

    monkeypatch.setattr(StateBench, "judge", hang)
    plan = BatteryPlan((a_check([edited("hangs")]),), time=TimeToTry(0.01, 2))
    check = World().check(make_task(tmp_path), tmp_path, plan)
    assert check.outcomes[0].left_out == 1


def test_a_case_on_a_state_that_is_not_there_is_not_tried_and_says_why(tmp_path):
    plan = BatteryPlan((a_check([edited("one")]),))
    check = World().check(write_task(tmp_path / "one", files=GOLDEN), tmp_path, plan)
    assert check.outcomes[0].left_out == 1
    assert "the task has no solution" in (check.outcomes[0].reason or "")


def test_a_failure_of_the_machine_is_tried_once_more_and_is_never_a_finding(tmp_path, monkeypatch):
    asked, really = [], StateBench.judge

    async def fail(self, end, folder, edits=(), conditions=USUAL_CONDITIONS):
        asked.append(edits)
        if edits:
            raise SandboxError("the sandbox has gone")
        return await really(self, end, folder, edits, conditions)

    monkeypatch.setattr(StateBench, "judge", fail)
    check = World().check(make_task(tmp_path), tmp_path, BatteryPlan((nothing,)))
    assert len([edits for edits in asked if edits]) == 10
    assert (check.findings, check.outcomes[0].tried, check.outcomes[0].left_out) == ((), 1, 5)
    assert "the sandbox has gone" in (check.outcomes[0].reason or "")


def test_a_case_with_a_command_is_a_trial_of_its_own(tmp_path):
    def cheat(sandbox) -> None:
        assert sandbox.files["/app/tool.sh"] == b"cheat"
        sandbox.files[ANSWER] = RIGHT

    case = Case("V5/cheat", "V5", UNTOUCHED, (Edit("/app/tool.sh", b"cheat"),), command="sh /app/tool.sh")
    told: list[float | None] = []

    def look(_: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
        told.extend(verdict.reward for verdict in verdicts.values())
        return CheckResult(CheckOutcome(check="V5", status="passed"))

    World(agents={"tool.sh": cheat}).check(make_task(tmp_path), tmp_path, BatteryPlan((a_check([case], look),)))
    assert told == [1.0]


def test_checks_see_only_verdicts_on_their_own_cases(tmp_path):
    check = World().check(make_task(tmp_path), tmp_path, BatteryPlan((nothing, a_check([edited("mine")]))))
    assert check.outcomes[1].figures == {"seen": ["V5/mine"]}


def test_findings_are_quoted_for_a_shell(tmp_path):
    def find(subject: Subject, _: Mapping[str, CaseVerdict]) -> CheckResult:
        named = replace(subject, name="my tasks/one", options=("--image-map", "a b=host"))
        finding = CheckFinding(check="V5", code="x", weight="note", message="m", reproduce=named.reproduce("V5/x"))
        return CheckResult(CheckOutcome(check="V5", status="passed"), [finding])

    check = World().check(make_task(tmp_path), tmp_path, BatteryPlan((a_check([], find),)))
    assert check.findings[0].reproduce == "seatrial check 'my tasks/one' --image-map 'a b=host' --case V5/x"
    assert check.grade == "A", "notes count for nothing"


def test_files_of_cases_do_not_pile_up(tmp_path):
    World().check(make_task(tmp_path), tmp_path, PLAN)
    left = [path for path in (tmp_path / "files").iterdir() if (path / "verifier").exists()]
    assert len(left) <= 1, "only the solution's trial stays, with its end state"


def test_every_check_is_listed_once_in_order():
    numbers = [int(check.CHECK[1:]) for check in CHECKS]
    assert numbers == sorted(set(numbers))
    assert all(check.TITLE for check in CHECKS)


PASSED = CheckOutcome(check="V2", status="passed", tried=6)


def finding(weight, code="x", **others) -> CheckFinding:
    return CheckFinding(check="V5", code=code, weight=weight, message="m", reproduce="r", **others)


def result(*findings: CheckFinding, why: str | None = None, outcomes=(PASSED,)) -> TaskCheck:
    grade, reasons = grade_of(outcomes, findings, why)
    return TaskCheck(
        task="t",
        name="t",
        digest="0" * 64,
        backend="fake",
        image="host",
        grade=grade,
        reasons=reasons,
        outcomes=outcomes,
        findings=findings,
        finished_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )


@pytest.mark.parametrize(
    ("weights", "grade"),
    [
        ([], "A"),
        (["note", "note"], "A"),
        (["minor"], "B"),
        (["major", "minor"], "C"),
        (["major", "major"], "C"),
        (["major"] * 3, "D"),
        (["critical"], "F"),
    ],
)
def test_the_heaviest_decide(weights, grade):
    assert result(*map(finding, weights)).grade == grade


@pytest.mark.parametrize("mark", ["accepted", "known"])
def test_what_is_accepted_or_known_does_not_count(mark):
    check = result(finding("critical", **{mark: True}))
    assert check.grade == "A"
    assert not fails(check, "minor")


@pytest.mark.parametrize(
    "outcome",
    [
        CheckOutcome(check="V5", status="error", reason="it fell"),
        CheckOutcome(check="V5", status="passed", tried=3, left_out=2),
    ],
)
def test_what_could_not_be_tried_is_no_a(outcome):
    """Results of earlier versions do not tell what there was no time for."""
    check = result(outcomes=(outcome,))
    assert check.grade == "B"
    assert check.reasons[0].startswith("V5 ")


def test_a_skipped_check_is_no_fault():
    assert result(outcomes=(CheckOutcome(check="V3", status="skipped", reason="none shipped"),)).grade == "A"


def test_without_an_accepted_answer_it_is_a_b_also_after_a_baseline():
    check = result(finding("major"), why="no solution")
    assert (check.grade, len(check.reasons)) == ("C", 2)
    known = regraded(check, [finding("major", known=True)])
    assert known.grade == "B"
    assert known.reasons == ("there is no accepted answer to try variations of: no solution",)


@pytest.mark.parametrize(("least", "failing"), [("critical", False), ("major", True), ("minor", True)])
def test_findings_fail_from_a_weight_on(least, failing):
    assert fails(result(finding("major"), finding("note")), least) is failing


def test_a_task_that_could_not_be_judged_fails():
    assert fails(result().model_copy(update={"grade": None}), "critical")


def test_where_no_wrong_answer_was_tried_it_is_a_b():
    skipped = CheckOutcome(check="V5", status="skipped", reason="nothing in it can be changed")
    assert grade_of([skipped], [])[0] == "B"
    assert grade_of([skipped.model_copy(update={"reason": NO_ANSWER})], [])[0] == "A", "a service, or it is said"
