"""A job is judged: each trial once, stored whole, resumed without asking again; a failing provider is no answer."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import ProviderError, RubricError, UsageError
from seatrial.jobs.judging import JudgeOptions, JudgingOutcome, prepare_judging, run_judging
from seatrial.model.base import to_json
from seatrial.model.job import AgentOptions
from seatrial.model.record import Failure
from seatrial.store.job_store import JobStore
from tests.conftest import MakeTask
from tests.jobs.judged_jobs import REPORT, RUBRIC, answering, judge_by, judged_job, leave
from tests.jobs.samples import record

FAIR = answering({"units": True, "sign": False})


@pytest.fixture
def job(make_task: MakeTask, tmp_path: Path) -> JobStore:
    return judged_job(make_task, tmp_path)


def judge(job: JobStore, **options: Any) -> JudgingOutcome:
    given = {"rubric": job.path.parent / "rubric.toml", "models": ("gpt-judge",), **options}
    return asyncio.run(run_judging(prepare_judging(job, job.entries(), JudgeOptions(**given))))


def of_report(requests: list[dict[str, Any]]) -> Counter[str]:
    """How often each task's report was shown."""
    text = [request["messages"][1]["content"] for request in requests]
    return Counter(name for each in text for name in ("add", "sort") if f"The report of {name}: 4.2 V" in each)


def test_every_trial_is_assessed_by_what_it_left(job, monkeypatch):
    requests = judge_by(monkeypatch, FAIR)
    outcome = judge(job)
    assert of_report(requests) == {"add": 2, "sort": 2}
    assert "Write the answer to" in requests[0]["messages"][1]["content"]
    found = job.assessments()
    assert {trial: [each.score for each in said] for trial, said in found.items()} == {
        "add.noop.1": [0.5],
        "sort.noop.1": [0.5],
    }
    (said,) = found["add.noop.1"]
    assert said.judges[0].model_dump() == {"model": "gpt-judge", "upstream": "openai"}
    assert (said.usage.calls, said.usage.cost_usd, said.seatrial_version is not None) == (2, None, True)
    assert not outcome.failed


def test_what_was_asked_is_not_asked_again(job, monkeypatch):
    judge_by(monkeypatch, FAIR)
    judge(job)
    requests = judge_by(monkeypatch, FAIR)
    assert judge(job).ended == 2
    assert requests == []
    assert [len(said) for said in job.assessments().values()] == [1, 1]


def test_another_output_is_another_question(job, monkeypatch):
    judge_by(monkeypatch, FAIR)
    judge(job)
    leave(job, "add.noop.1", {REPORT: "something else"})
    requests = judge_by(monkeypatch, FAIR)
    judge(job)
    assert len(requests) == 2
    assert {trial: len(said) for trial, said in job.assessments().items()} == {"add.noop.1": 2, "sort.noop.1": 1}


def test_a_provider_s_failure_costs_its_trial_the_assessment_and_no_other(job, monkeypatch):
    def answer(request: dict[str, Any]) -> Any:
        if "report of add" in request["messages"][1]["content"]:
            raise ProviderError("the provider answered 503")
        return FAIR(request)

    judge_by(monkeypatch, answer)
    outcome = judge(job, concurrent=1)
    assert [(each.trial_id, each.failure) for each in outcome.failed] == [
        ("add.noop.1", "ProviderError: the provider answered 503")
    ]
    assert set(job.assessments()) == {"sort.noop.1"}


def test_after_many_failures_the_rest_is_given_up(make_task, tmp_path, monkeypatch):
    job = judged_job(make_task, tmp_path, tuple(f"t{at}" for at in range(15)))

    def answer(_: dict[str, Any]) -> Any:
        raise ProviderError("no such key")

    requests = judge_by(monkeypatch, answer)
    outcome = judge(job, concurrent=1)
    assert len(requests) == len(outcome.failed) == 10
    assert outcome.stopped is not None
    assert "10 trials failed one after the other" in outcome.stopped


def test_the_limit_of_cost_stops_the_next_trial(job, tmp_path, monkeypatch):
    answer = FAIR

    def dear(request: dict[str, Any]) -> Any:
        usage = {"input_tokens": 900_000, "output_tokens": 0}
        return {"text": answer(request), "usage": usage}

    requests = judge_by(monkeypatch, dear)
    outcome = judge(job, models=("gpt-5",), max_cost_usd=2.0, concurrent=1)
    assert 2 <= len(requests) < 4
    assert outcome.stopped == "the limit of 2 USD is reached"
    assert set(job.assessments()) == {"add.noop.1"}
    with pytest.raises(UsageError, match="the cost of gpt-judge is not known"):
        judge(job, max_cost_usd=2.0)


def test_the_graded_model_does_not_judge_itself(make_task, tmp_path, monkeypatch):
    agent = AgentOptions(name="noop", model="openai/gpt-judge-2026-01-01")
    job = judged_job(make_task, tmp_path, agents=(agent,))
    judge_by(monkeypatch, FAIR)
    with pytest.raises(UsageError, match="is the model of the agent 'noop'"):
        judge(job)
    assert not judge(job, allow_self=True).failed
    assert not judge(job, models=("gpt-other",)).failed


def test_without_a_rubric_each_task_has_its_own(make_task, tmp_path, monkeypatch):
    job = judged_job(make_task, tmp_path)
    tests = tmp_path / "tasks/add/tests"
    (tests / "rubric.toml").write_text(f'reference = "golden.md"\nmodel = "gpt-judge"\n{RUBRIC}')
    (tests / "golden.md").write_text("4.2 V it is")
    requests = judge_by(monkeypatch, FAIR)
    options = JudgeOptions()
    prepared = prepare_judging(job, job.entries(), options)
    assert [trial.task_id for trial in prepared.trials] == ["add"]
    assert prepared.notices == ("no tests/rubric.toml to judge their trials by: sort",)
    asyncio.run(run_judging(prepared))
    assert "4.2 V it is" in requests[0]["messages"][1]["content"]
    assert job.assessments()["add.noop.1"][0].rubric == "add"
    (tests / "golden.md").unlink()
    with pytest.raises(RubricError, match=r"golden\.md"):
        prepare_judging(job, job.entries(), options)
    (tests / "golden.md").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"add: .* is not a usable task"):
        prepare_judging(job, job.entries(), options)
    with pytest.raises(RubricError, match="links are not followed"):
        prepare_judging(job, job.entries(), JudgeOptions(rubric=tests / "rubric.toml"))


def test_what_cannot_be_judged_is_named(job, tmp_path):
    failure = Failure(phase="agent", cause="SandboxError", message="gone", retryable=False)
    failed = record("add.noop.1").model_copy(update={"evaluation": None, "failure": failure})
    (job.path / "trials/add.noop.1/record.json").write_bytes(to_json(failed))
    entries = [entry._replace(outcome="infrastructure_error") for entry in job.entries()[:1]]
    with pytest.raises(UsageError, match="1 of 1 trials have no result"):
        prepare_judging(job, entries, JudgeOptions(tmp_path / "rubric.toml", ("gpt-judge",)))
    with pytest.raises(RubricError, match="add --judge MODEL"):
        prepare_judging(job, job.entries(), JudgeOptions(tmp_path / "rubric.toml"))
    with pytest.raises(UsageError, match="does not say where the model is"):
        prepare_judging(job, job.entries(), JudgeOptions(tmp_path / "rubric.toml", ("mystery",)))


CHILD = """
import asyncio, os, sys
from contextlib import asynccontextmanager
from pathlib import Path
from seatrial.gateway.upstreams.function import FunctionModel
from seatrial.jobs import judge_model
from seatrial.jobs.judging import JudgeOptions, prepare_judging, run_judging
from seatrial.store.job_store import JobStore
from tests.jobs.judged_jobs import answering

fair = answering({"units": True, "sign": False})

async def answer(request):
    text = request["messages"][1]["content"]
    print("asked", text.partition("The report of ")[2].partition(":")[0], flush=True)
    if "report of t5:" in text and '"sign"' in text:
        print("stuck", flush=True)
        await asyncio.Event().wait()
    return fair(request)

@asynccontextmanager
async def opened(*_, **__):
    yield FunctionModel(answer)

judge_model.open_upstream = opened
job = JobStore.open(Path(sys.argv[1]))
options = JudgeOptions(Path(sys.argv[2]), ("gpt-judge",), concurrent=1)
asyncio.run(run_judging(prepare_judging(job, job.entries(), options)))
"""


def test_kill_9_in_the_middle_loses_and_doubles_nothing(make_task, tmp_path, monkeypatch):
    job = judged_job(make_task, tmp_path, tuple(f"t{at}" for at in range(9)))
    command = [sys.executable, "-c", CHILD, str(job.path), str(tmp_path / "rubric.toml")]
    asked: Counter[str] = Counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line == "stuck\n":
                child.kill()
                break
            asked[line.split()[1]] += 1
    stored = set(job.assessments())
    assert stored == {f"t{at}.noop.1" for at in range(5)}
    requests = judge_by(monkeypatch, FAIR)
    judge(job)
    text = [request["messages"][1]["content"] for request in requests]
    asked.update(each.partition("The report of ")[2].partition(":")[0] for each in text)
    assert asked == {**{f"t{at}": 2 for at in range(9)}, "t5": 4}
    lines = (job.path / "assessments.jsonl").read_text().splitlines()
    assert Counter(json.loads(line)["trial_id"] for line in lines) == {f"t{at}.noop.1": 1 for at in range(9)}


def test_a_line_that_a_crash_cut_is_asked_for_again_and_loses_no_other(job, monkeypatch):
    judge_by(monkeypatch, FAIR)
    judge(job)
    path = job.path / "assessments.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    requests = judge_by(monkeypatch, FAIR)
    judge(job)
    assert len(requests) == 2
    assert [[each.score for each in said] for said in JobStore.open(job.path).assessments().values()] == [[0.5], [0.5]]
