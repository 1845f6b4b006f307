"""Several steps as one evaluation, and which of them are good enough to go on."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.base import CallTally
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.events import Notice
from seatrial.model.record import AgentResult, TrialRecord, VerifierRun, outcome_of
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.processor import processors
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer
from seatrial.trial.combine import combine
from seatrial.trial.events import Event
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from seatrial.trial.warnings import AgentTrace, find_busy, find_warnings, trace_agent
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, python_command, trial_spec, write_task


def evaluation(reward: float = 1.0, *errors: str, parseable: bool = True, completed: bool = True) -> EvaluationResult:
    validity = ValidityCheck(
        output_parseable=parseable, schema_valid=True, verifier_completed=completed, errors=list(errors)
    )
    tags = [ErrorTag(category=error.partition(":")[0], source=ErrorSource.MECHANICAL) for error in errors]
    return EvaluationResult(reward=reward, validity=validity, error_taxonomy=tags or None)


RIGHT, WRONG, NOTHING = "right", "wrong", "nothing"


def of_kind(kind: str, code: str) -> EvaluationResult:
    if kind == NOTHING:
        return evaluation(0.0, f"{code}: nothing", parseable=False)
    return evaluation(1.0 if kind == RIGHT else 0.0)


def test_the_mean_rests_on_all_steps_and_the_final_reward_on_the_last():
    steps = {"a": evaluation(0.0, "no_output: nothing", parseable=False, completed=False), "b": evaluation(1.0)}
    mean, final = combine(steps, "mean"), combine(steps, "final")
    assert (mean.reward, final.reward) == (0.5, 1.0)
    assert (mean.validity.verifier_completed, final.validity.verifier_completed) == (False, True)
    assert mean.validity.errors == final.validity.errors == ["no_output: step a: nothing"]
    assert [tag.category for tag in mean.error_taxonomy or ()] == ["no_output"]


@pytest.mark.parametrize(
    ("first", "last", "strategy", "flag", "outcome"),
    [
        (NOTHING, WRONG, "mean", False, "no_output"),
        (WRONG, NOTHING, "mean", False, "no_output"),
        (NOTHING, RIGHT, "mean", True, "partial"),
        (WRONG, WRONG, "mean", True, "fail"),
        (NOTHING, WRONG, "final", True, "fail"),
        (NOTHING, RIGHT, "final", True, "pass"),
        (WRONG, NOTHING, "final", False, "no_output"),
    ],
)
@pytest.mark.parametrize("code", ["no_output", "output_missing"])
def test_a_step_without_an_output_explains_only_a_zero_that_rests_on_it(first, last, strategy, flag, outcome, code):
    steps = {"a": of_kind(first, code), "b": of_kind(last, code)}
    combined = combine(steps, strategy)
    assert (combined.validity.output_parseable, outcome_of(combined)) == (flag, outcome)


@pytest.mark.parametrize("strategy", ["mean", "final"])
@given(
    rewards=st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.text(max_size=20)), min_size=1, max_size=6),
)
def test_whatever_the_steps_were_there_is_an_evaluation(strategy, rewards):
    steps = {
        str(number): evaluation(reward if parseable else 0.0, error, parseable=parseable, completed=parseable)
        for number, (reward, parseable, error) in enumerate((r, p, f"x{e}") for r, p, e in rewards)
    }
    combined = combine(steps, strategy)
    assert 0.0 <= combined.reward <= 1.0
    assert combined.breakdown == {"steps": {name: {"reward": step.reward} for name, step in steps.items()}}


def test_repeats_of_all_steps_tell_how_sure_their_mean_is():
    def sure(repeats: int, spread: float) -> EvaluationResult:
        told = ConfidenceMetadata(verifier_repeats=repeats, verifier_reward_sd=spread, annotator_count=2)
        return evaluation().model_copy(update={"confidence": told})

    steps = {"a": sure(3, 0.3), "b": sure(5, 0.4)}
    assert combine(steps, "mean").confidence == ConfidenceMetadata(verifier_repeats=3, verifier_reward_sd=0.25)
    assert combine(steps, "final").confidence == steps["b"].confidence
    assert combine({**steps, "c": evaluation()}, "mean").confidence is None


def trace(tmp_path, stderr: str, code: int | None = 1, seconds: float = 0.1, tally: CallTally | None = None):
    (tmp_path / "stderr.txt").write_text(stderr)
    result = AgentResult(status="timed_out" if code is None else "exited", exit_code=code, duration_sec=seconds)
    return trace_agent(result, tmp_path, tally)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (127, "/bin/sh: 1: my-agent: not found"),
        (126, "/bin/sh: 1: ./agent.py: Permission denied"),
        (127, ""),
        (2, "python3: can't open file '/app/agent.py': [Errno 2] No such file or directory"),
        (2, "sh: 0: cannot open agent.sh: No such file"),
        (2, "/bin/sh: 0: Can't open agent.sh"),
        (1, "node:internal\nError: Cannot find module '/app/agent.js'\n  code: 'MODULE_NOT_FOUND',\n\nNode.js v20"),
        (1, "/usr/bin/python3: No module named my_agent"),
        (1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'openai'"),
        (1, "Error: Unable to access jarfile agent.jar"),
    ],
)
def test_a_command_that_could_not_be_started(tmp_path, code, said):
    (warning,) = find_warnings([trace(tmp_path, said, code)])
    assert warning.code == "agent_not_started"
    assert f"ended with {code} after 0.1 s" in warning.message


@pytest.mark.parametrize(
    ("code", "said", "seconds"),
    [
        (0, "my-agent: not found", 0.1),
        (1, "I give up", 0.1),
        (127, "sh: 9: jq: not found", 30.0),
        (None, "python3: can't open file 'x'", 1.0),
        (-9, "", 0.1),
    ],
    ids=["it succeeded", "it gave up by itself", "it worked for a while", "its time ran out", "it was killed"],
)
def test_an_agent_that_ran_is_not_warned_of_however_it_ended(tmp_path, code, said, seconds):
    assert find_warnings([trace(tmp_path, said, code, seconds)]) == ()


def test_an_agent_whose_model_answered_has_started(tmp_path):
    assert find_warnings([trace(tmp_path, "jq: not found", 127, tally=CallTally(1, 1))]) == ()


def test_what_is_said_on_the_other_stream_counts_when_there_is_nothing_else(tmp_path):
    (tmp_path / "stdout.txt").write_text("python3: can't open file 'agent.py'\n")
    assert trace(tmp_path, "", 2).not_started


@pytest.mark.parametrize(
    ("tallies", "code"),
    [
        ([CallTally()], "no_model_call"),
        ([CallTally(3, 0, 3, "no such key")], "calls_refused"),
        ([CallTally(3, 0, 1, "no such key")], "calls_unanswered"),
        ([CallTally(3, 1, 2)], None),
        ([CallTally(), CallTally(2, 2)], None),
        ([CallTally(), CallTally(2, 0, 2)], "calls_refused"),
        ([], None),
    ],
)
def test_what_came_of_the_calls_of_all_rounds(tallies, code):
    assert [each.code for each in find_warnings([AgentTrace(tally=tally) for tally in tallies])] == [code] * bool(code)


def test_only_the_first_cause_is_named(tmp_path):
    (warning,) = find_warnings([trace(tmp_path, "x: not found", 127, tally=CallTally())])
    assert warning.code == "agent_not_started"


def warned(desk: Desk, command: str) -> tuple[float, list[str], str]:
    spec = trial_spec(write_task(desk.new_folder() / "task"), command)
    model = ModelAccess(ScriptedModel([{"text": "right"}]), SessionOptions(), PriceTable(models={}))
    ran = desk.run_spec(spec, model=model)
    return ran.reward, [each.code for each in ran.record.warnings], "".join(w.message for w in ran.record.warnings)


def test_a_real_command_that_is_not_there(desk):
    reward, codes, message = warned(desk, "no-such-agent --now")
    assert (reward, codes) == (0.0, ["agent_not_started"])
    assert "no-such-agent" in message


def test_a_real_agent_that_never_asks_its_model_keeps_its_reward(desk):
    assert warned(desk, "echo right > /app/answer.txt")[:2] == (1.0, ["no_model_call"])


def test_a_real_agent_whose_calls_make_no_sense_is_refused_and_the_reason_is_told(desk):
    reward, codes, message = warned(
        desk,
        python_command("""
            import os, urllib.request
            headers = {"authorization": "Bearer sk-dummy", "content-type": "application/json"}
            url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
            urllib.request.urlopen(urllib.request.Request(url, b"{}", headers))
        """),
    )
    assert (reward, codes) == (0.0, ["calls_refused"])
    assert "`messages` is missing" in message


def test_the_oracle_needs_no_model(desk):
    files = {"solution/solve.sh": "#!/bin/sh\necho right > /app/answer.txt\nno-such-tool\n"}
    spec = trial_spec(write_task(desk.new_folder() / "task", files=files), "oracle")
    model = ModelAccess(ScriptedModel([]), SessionOptions(), PriceTable(models={}))
    assert desk.run_spec(spec, model=model).record.warnings == ()


REWARD = "/logs/verifier/reward.txt"
SIX = "[verifier]\ntimeout_sec = 6.0\n"
STARVED = ExecResult(None, 18.0, cpu_sec=3.0, cpu_wait_sec=14.0)
OUT_OF_TIME = ExecResult(None, 6.5, cpu_sec=5.9, cpu_wait_sec=0.5)
WORKED = ExecResult(0, 2.0, cpu_sec=1.9, cpu_wait_sec=0.0)


class Verifier:
    """Ends as a script says, beside the agent's work and where nobody has worked; it gives 1 for work and 0 without."""

    def __init__(
        self,
        beside_work: Sequence[ExecResult],
        untouched: Sequence[ExecResult] = (),
        agent: ExecResult = WORKED,
        survivors: Sequence[str] = (),
    ) -> None:
        self._script = {True: list(beside_work), False: list(untouched)}
        self._agent = agent
        self._survivors = survivors

    def __call__(self, spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase != "verifier":
            sandbox.files[ANSWER] = b"x"
            sandbox.running += self._survivors
            return self._agent
        script = self._script[ANSWER in sandbox.files]
        ended = script.pop(0)
        if not ended.timed_out:
            sandbox.files[REWARD] = b"1" if ANSWER in sandbox.files else b"0"
        return ended

    @property
    def left(self) -> int:
        """How often it was not asked although the script goes on."""
        return sum(map(len, self._script.values()))


def run(tmp_path: Path, *verifiers: Verifier, **options: Any) -> tuple[list[TrialRecord], list[Event]]:
    """The records of trials of one run, one after the other."""
    spec = trial_spec(write_task(tmp_path / "task", toml=SIX), "work", **options)
    events: list[Event] = []

    async def all_of_them() -> list[TrialRecord]:
        records = []
        for number, verifier in enumerate(verifiers):
            (tmp_path / str(number)).mkdir()
            machinery = Machinery(FakeBackend(verifier))
            records.append(await run_trial(spec, machinery, tmp_path / str(number), events.append))
        return records

    return asyncio.run(asyncio.wait_for(all_of_them(), 20)), events


def tags(record: TrialRecord) -> dict[str, str]:
    assert record.evaluation, record.failure
    return {tag.category: tag.description or "" for tag in record.evaluation.error_taxonomy or ()}


def told(record: TrialRecord) -> set[str]:
    return {warning.code for warning in record.warnings}


def test_a_verifier_without_time_is_asked_once_more_and_then_counts(tmp_path):
    verifier = Verifier([STARVED, WORKED])
    ((record,), _) = run(tmp_path, verifier)
    assert (record.outcome, verifier.left) == ("pass", 0)
    assert record.verifier_run
    assert (record.verifier_run.retried_alone, record.verifier_run.cpu_sec) == (True, 1.9)
    assert told(record) == set()


@pytest.mark.parametrize(
    "verifier",
    [
        pytest.param(Verifier([STARVED, STARVED, WORKED]), id="nor did it have time alone"),
        pytest.param(Verifier([STARVED, WORKED, WORKED], survivors=["server"]), id="its services have ended with it"),
    ],
)
def test_one_that_never_had_its_time_says_nothing_about_anybody(tmp_path, verifier):
    ((record,), _) = run(tmp_path, verifier)
    assert (record.outcome, verifier.left > 0) == ("infrastructure_error", True)
    assert record.failure
    assert (record.failure.cause, record.failure.retryable) == ("HostBusyError", True)
    assert "which has 6 s and could run in 4.0 s of 18.0 s" in record.failure.message


def test_one_that_had_its_time_is_the_agents_if_it_judges_without_an_agent(tmp_path):
    ((record,), events) = run(tmp_path, Verifier([OUT_OF_TIME], [WORKED]))
    assert (record.outcome, record.evaluation and record.evaluation.reward) == ("fail", 0.0)
    assert "verifier_silenced" not in tags(record)
    said = tags(record)["verifier_timeout"]
    assert "it had 6.5 s with 5.9 s of processor time, 0.5 s of which others used the processors" in said
    assert "judges the untouched environment in 2.0 s; 0.0 counts" in said
    assert told(record) == {"verifier_timeout"}
    assert not [event for event in events if isinstance(event, Notice)]


def test_one_that_runs_out_of_time_without_an_agent_too_is_the_tasks(tmp_path):
    verifiers = [Verifier([OUT_OF_TIME], [replace(OUT_OF_TIME, duration_sec=6.1)]), Verifier([OUT_OF_TIME])]
    records, events = run(tmp_path, *verifiers)
    for record in records:
        assert record.outcome == "verifier_error"
        assert record.verifier_run
        assert (record.verifier_run.baseline, record.verifier_run.baseline_sec) == ("silent", 6.1)
        assert "runs out of time on the untouched environment too, the 6 s it has" in tags(record)["verifier_broken"]
        assert "verifier_silenced" not in tags(record)
    (first, _) = [event.text for event in events if isinstance(event, Notice)]
    assert first.startswith("task: the verifier runs out of time even where no agent has been, the 6 s it has")
    assert "timeout_sec" in first
    assert "--verdict" not in first


def test_a_baseline_without_time_condemns_no_task(tmp_path):
    """The first trial is void; the next one asks for itself, and the one after that knows."""
    starved = Verifier([OUT_OF_TIME], [STARVED, STARVED])
    records, _ = run(tmp_path, starved, Verifier([OUT_OF_TIME], [STARVED, WORKED]), Verifier([OUT_OF_TIME]))
    assert [record.outcome for record in records] == ["infrastructure_error", "fail", "fail"]
    assert records[0].failure
    assert records[0].failure.cause == "HostBusyError"


@pytest.mark.parametrize(
    ("agent", "verifier", "codes"),
    [
        ((10.0, 2.0), (10.0, 2.0), []),
        ((10.0, 2.1), (10.0, 0.0), ["host_busy"]),
        ((1.0, 0.9), (10.0, 0.0), []),
        ((10.0, None), (10.0, None), []),
        ((0.0, 0.0), (4.0, 3.0), ["host_busy"]),
    ],
)
def test_trials_are_marked_that_were_kept_from_running(agent, verifier, codes):
    (agent_sec, agent_waited), (verifier_sec, verifier_waited) = agent, verifier
    result = AgentResult(status="exited", exit_code=0, duration_sec=agent_sec, cpu_wait_sec=agent_waited)
    judged = VerifierRun(duration_sec=verifier_sec, isolation="guarded", cpu_wait_sec=verifier_waited)
    assert [warning.code for warning in find_busy(result, judged)] == codes


def test_an_agent_that_ran_out_of_time_meanwhile_is_marked(tmp_path):
    agent = ExecResult(None, 10.0, cpu_sec=4.0, cpu_wait_sec=5.0)
    ((record,), _) = run(tmp_path, Verifier([WORKED], agent=agent))
    assert told(record) == {"host_busy", "agent_timeout_busy"}
    assert record.agent_result
    assert (record.agent_result.cpu_sec, record.agent_result.cpu_wait_sec) == (4.0, 5.0)
    assert "the agent was kept from running for 5.0 of its 10.0 s" in record.warnings[0].message


@pytest.mark.parametrize(
    ("agent_waited", "verifier_waited", "outcome"),
    [(1.0, 1.0, "pass"), (2.5, 2.5, "pass"), (3.0, 0.0, "infrastructure_error"), (0.0, 3.0, "infrastructure_error")],
)
def test_a_run_may_accept_only_so_much(tmp_path, agent_waited, verifier_waited, outcome):
    agent = replace(WORKED, duration_sec=10.0, cpu_wait_sec=agent_waited)
    verifier = Verifier([ExecResult(0, 10.0, cpu_sec=5.0, cpu_wait_sec=verifier_waited)], agent=agent)
    ((record,), _) = run(tmp_path, verifier, max_busy=0.25)
    assert record.outcome == outcome
    if record.failure:
        assert record.failure.retryable
        assert "3.0 of its 10.0 s" in record.failure.message
        assert "more than 25% (--max-busy)" in record.failure.message


def test_less_than_a_second_makes_no_trial_void(tmp_path):
    ((record,), _) = run(tmp_path, Verifier([replace(WORKED, duration_sec=1.0, cpu_wait_sec=0.9)]), max_busy=0.25)
    assert record.outcome == "pass"


def test_verifiers_have_patience_and_agents_are_only_measured(tmp_path):
    asked: dict[str, ExecSpec] = {}

    def note(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        asked[spec.phase] = spec
        sandbox.files[REWARD] = b"1"
        return answer()

    spec = trial_spec(write_task(tmp_path / "task", toml=SIX), "work", verifier_timeout_multiplier=2.0)
    asyncio.run(run_trial(spec, Machinery(FakeBackend(note)), tmp_path))
    assert (asked["agent"].patience_sec, asked["verifier"].timeout_sec, asked["verifier"].patience_sec) == (0, 12, 24)


@pytest.fixture
def burners() -> Iterator[None]:
    """Four times as many busy processes as there are processors."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * processors())]
    yield
    for process in processes:
        process.kill()
        process.wait()


NEEDS_TIME = """#!/bin/sh
python3 -I -c '
import time
while time.process_time() < 0.4: pass
print(int(open("/app/answer.txt").read() == "right\\n"))' > /logs/verifier/reward.txt
"""


@pytest.mark.alone
@needs_root
@pytest.mark.usefixtures("burners")
@pytest.mark.parametrize("at_once", [1, 8])
def test_honest_work_on_a_starved_machine_is_never_a_zero(tmp_path, at_once):
    """On a machine of its own, the verifier needs 0.5 of the 0.7 seconds it has; so a false zero is no bad luck."""
    toml = "[verifier]\ntimeout_sec = 0.7\n"
    root = write_task(tmp_path / "task", toml=toml, files={"tests/test.sh": NEEDS_TIME})
    spec = trial_spec(root, f"echo right > {ANSWER}")

    async def scene() -> list[TrialRecord]:
        async with EmbeddedBackend() as backend, asyncio.TaskGroup() as group:
            machinery, trials = Machinery(backend), []
            for number in range(at_once):
                folder = tmp_path / str(number)
                folder.mkdir()
                trials.append(group.create_task(run_trial(spec, machinery, folder)))
            await asyncio.wait(trials)
        return [trial.result() for trial in trials]

    records = asyncio.run(asyncio.wait_for(scene(), 110))
    causes = {record.failure.cause for record in records if record.failure}
    assert {record.outcome for record in records} <= {"pass", "infrastructure_error"}
    assert causes <= {"HostBusyError"}
    assert any(record.verifier_run and record.verifier_run.cpu_wait_sec for record in records) or causes
