"""Tasks with a rubric and no script: what the judge sees, what it writes, and when there is no verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import RubricError
from seatrial.gateway.access import ModelAccess
from seatrial.gateway.calls import read_calls
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.function import FunctionModel
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.judge.rubric import parse_rubric
from seatrial.model.record import FileChanges
from seatrial.tasks.lint import errors_of
from seatrial.tasks.load import load_dataset
from seatrial.trial.rubric_verifier import change_lines, judges_of, read_references
from tests.judge.judges import answers
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, Ran, trial_spec, write_task

RUBRIC = f"""
guard = false
mode = "batched"
files = ["{ANSWER}"]
references = ["key.txt"]
[judge]
model = "openai/judge-1"
[[question]]
id = "right"
text = "Is the answer that of the key?"
[[question]]
id = "short"
text = "Is it one word?"
weight = 0.5
"""


def run(
    desk: Desk, *replies: Any, rubric: str = RUBRIC, agent: str | None = f"echo right > {ANSWER}", **more: Any
) -> Ran:
    root = desk.new_folder() / "task"
    files = {"tests/rubric.toml": rubric, "tests/key.txt": "The key is: right", **more.pop("files", {})}
    limits = {name: more.pop(name) for name in ("models", "max_tokens") if name in more}
    write_task(root, files=files, toml=more.pop("toml", ""))
    (root / "tests/test.sh").unlink()
    upstream = more.pop("upstream", None) or ScriptedModel(list(replies))
    model = ModelAccess(upstream, SessionOptions(caller="verifier", **limits), PriceTable(models={}), "openai")
    return desk.run_spec(trial_spec(root, agent, verifier_upstream="openai", **more), verifier_model=model)


def test_answers_become_the_files_of_a_verifier(desk: Desk) -> None:
    ran = run(desk, answers(right=True, short=False))
    assert (ran.reward, ran.record.outcome) == (0.6667, "partial")
    assert json.loads(ran.text("verifier/files/reward.json")) == {"reward": 0.6667}
    assert json.loads(ran.text("verifier/files/details.json"))["short"]["evidence"] == "because of short"
    assert ran.evaluation.breakdown
    assert ran.provenance.reward_file == "reward.json"
    assert ran.run.models == {"judge-1": "judge-1"}
    assert ran.record.verifier_usage is not None
    assert ran.record.verifier_usage.calls == 1
    assert json.loads(ran.text("verifier/assessment.json"))["judges"] == [{"model": "judge-1", "upstream": None}]


def test_the_judge_sees_what_the_rubric_names_of_the_end_state(desk: Desk) -> None:
    run_ = run(desk, answers(right=True, short=True), agent=f"echo right > {ANSWER}; echo hidden > /app/other.txt")
    (call,) = read_calls(run_.folder / "verifier/calls.jsonl")
    prompt = json.dumps(call.messages)
    assert "The key is: right" in prompt
    assert "Write the word" in prompt, "the instruction"
    assert "hidden" not in prompt


def test_a_file_that_is_missing_is_shown_as_missing(desk: Desk) -> None:
    ran = run(desk, answers(right=False, short=False), agent=None)
    assert ran.reward == 0.0
    (call,) = read_calls(ran.folder / "verifier/calls.jsonl")
    assert "the agent left no such file" in json.dumps(call.messages)


def test_all_evidence_of_changes_and_wild_names(desk: Desk) -> None:
    rubric = RUBRIC.replace(f'files = ["{ANSWER}"]', 'files = ["/app/*.md"]\nevidence = ["output", "changes"]')
    ran = run(desk, answers(right=True, short=True), rubric=rubric, agent="echo one > /app/a.md; echo two > /app/b.txt")
    (call,) = read_calls(ran.folder / "verifier/calls.jsonl")
    prompt = json.dumps(call.messages)
    assert "added /app/b.txt" in prompt
    assert "one" in prompt
    assert "two" not in prompt


def test_no_number_of_other_files_hides_the_one_that_is_named(desk: Desk) -> None:
    rubric = RUBRIC.replace(f'files = ["{ANSWER}"]', f'files = ["/app/*", "{ANSWER}"]')
    agent = f"for i in $(seq 120); do echo x > /app/a$i.txt; done; echo THE WORK > {ANSWER}"
    ran = run(desk, answers(right=True, short=True), rubric=rubric, agent=agent)
    prompt = json.dumps(next(iter(read_calls(ran.folder / "verifier/calls.jsonl"))).messages)
    assert "THE WORK" in prompt
    assert "one of 21 more files, which are not shown" in prompt


def test_an_answer_that_cannot_be_used_is_no_verdict_and_never_a_zero(desk: Desk) -> None:
    ran = run(desk, *["nonsense"] * 6)
    assert (ran.failure.phase, ran.failure.cause) == ("verify", "InvalidModelResponseError")
    assert "right is unscored" in ran.failure.message
    assert ran.record.verifier_usage is not None


def test_a_judge_that_fails_is_no_verdict(desk: Desk) -> None:
    ran = run(desk, {"error": {"status": 503, "message": "out of order"}})
    assert (ran.failure.phase, ran.failure.cause) == ("verify", "ProviderError")


def test_a_budget_that_is_used_up_is_no_verdict(desk: Desk) -> None:
    ran = run(desk, answers(right=True, short=True), max_tokens=1, rubric=RUBRIC.replace("batched", "individual"))
    assert (ran.failure.cause, ran.failure.retryable) == ("VerifierModelError", False)
    assert "the limit of 1 tokens is reached" in ran.failure.message


def test_without_a_model_there_is_no_verdict(desk: Desk) -> None:
    root = write_task(desk.new_folder() / "task", files={"tests/rubric.toml": RUBRIC})
    (root / "tests/test.sh").unlink()
    assert "--verifier-upstream" in desk.run(root).failure.message


def test_a_name_is_mapped_and_a_rubric_without_a_judge_asks_for_the_runs(desk: Desk) -> None:
    nameless = RUBRIC.replace('[judge]\nmodel = "openai/judge-1"\n', "")
    assert judges_of(parse_rubric(nameless.encode(), "x")) == ("judge",)
    ran = run(desk, answers(right=True, short=True), rubric=nameless, models={"judge": "judge-2"})
    assert (ran.reward, ran.run.models) == (1.0, {"judge": "judge-2"})


def test_repeats_and_steps_are_judged_by_rubrics_too(desk: Desk) -> None:
    assert run(desk, answers(right=True, short=True), verify_repeats=2).run.repeats == (1.0, 1.0)
    toml = '[environment]\nnetwork_mode = "no-network"\n[[steps]]\nname = "one"\n'
    ran = run(desk, answers(right=True, short=True), toml=toml, files={"steps/one/instruction.md": "Do it.\n"})
    assert [step.evaluation.reward for step in ran.record.steps if step.evaluation] == [1.0]


def is_sleeping(cmdline: Path) -> bool:
    try:
        return b"98765" in cmdline.read_bytes()
    except OSError:  # it has just ended
        return False


@needs_root
def test_processes_that_run_on_are_ended_before_the_judge_is_asked(desk: Desk) -> None:
    alive: list[bool] = []

    def say(_: dict[str, Any]) -> str:
        alive.append(any(map(is_sleeping, Path("/proc").glob("[0-9]*/cmdline"))))
        return answers(right=True, short=True)

    agent = f"echo right > {ANSWER}; sleep 98765 > /dev/null 2>&1 &"
    ran = run(desk, agent=agent, upstream=FunctionModel(say))
    assert (ran.reward, ran.run.isolation, alive) == (1.0, "kill", [False])
    assert "processes_left_running" in ran.tags


def test_a_separate_verifier_sees_artifacts_alone(desk: Desk) -> None:
    toml = f'artifacts = ["{ANSWER}"]\n[environment]\nnetwork_mode = "no-network"\n'
    toml += '[verifier]\nenvironment_mode = "separate"\n'
    ran = run(desk, answers(right=True, short=True), toml=toml)
    assert (ran.reward, ran.run.isolation) == (1.0, "separate")


def test_lint_accepts_a_rubric_in_place_of_a_script(desk: Desk) -> None:
    root = write_task(desk.new_folder() / "task", files={"tests/rubric.toml": RUBRIC})
    (root / "tests/test.sh").unlink()
    assert not errors_of(load_dataset(root).outlines[0])
    (root / "tests/rubric.toml").unlink()
    assert [each.code for each in errors_of(load_dataset(root).outlines[0])] == ["missing-test-script"]


def test_references_that_are_not_there_are_an_error(tmp_path: Any) -> None:
    with pytest.raises(RubricError, match=r"key\.txt"):
        read_references(parse_rubric(RUBRIC.encode(), "x"), tmp_path)


def test_of_many_changes_only_the_first_are_listed() -> None:
    lines = list(change_lines(FileChanges(added=tuple(map(str, range(600))), removed=("x",))))
    assert lines[-2:] == ["removed x", "… and 100 more"]
    assert len(lines) == 502
