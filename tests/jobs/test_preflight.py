"""Trying agents out before their first trial: what stops a job, and what is left to the trials."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.errors import BakeError, HealthcheckError, PreflightError
from seatrial.jobs import api
from seatrial.jobs.api import prepare_job, prepare_resume, run_prepared
from seatrial.jobs.engine import JobOutcome
from seatrial.jobs.preflight import PreflightPlan, preflight
from seatrial.model.events import Notice
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import FakeBackend, answer
from seatrial.testing.fake_provider import Fail, FakeProvider, Received
from seatrial.trial.events import TrialFinished
from seatrial.trial.spec import Machinery
from tests.agents.presets_made import options, preset
from tests.backends.stand_ins import stand_in
from tests.jobs.samples import Watcher
from tests.trial.support import trial_spec, write_task

REWARD = {"/logs/verifier/reward.txt": b"0"}
Look = Callable[[ExecSpec], str]


def is_look(spec: ExecSpec) -> bool:
    return len(spec.argv) == 6 and "command -v" in spec.argv[2]


def is_question(spec: ExecSpec) -> bool:
    return len(spec.argv) == 5 and "python3" in spec.argv[2]


class Machine:
    """A backend in which looking for programs and asking the gateway come to what a test says."""

    def __init__(self, look: str = "", question: str = "answered") -> None:
        self.looked: list[tuple[str, ...]] = []
        self.looks: Iterator[str] = itertools.repeat(look)
        self._question = question
        self.backend = FakeBackend(self._run, files=REWARD)

    def _run(self, spec: ExecSpec, *_: object) -> ExecResult:
        if is_look(spec):
            self.looked.append(spec.argv[4:])
            return answer(next(self.looks))
        return answer(self._question if is_question(spec) else "")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def go(machine: Machine, command: str = "my-agent", watcher: Watcher | None = None, **changes) -> JobOutcome:
        stand_in(monkeypatch, lambda: machine.backend)
        write_task(tmp_path / "tasks/one")
        write_task(tmp_path / "tasks/two")
        spec = JobSpec(
            **{
                "name": "j",
                "tasks": (str(tmp_path / "tasks"),),
                "agents": (AgentOptions(name="command", command=command),),
                "trial": TrialOptions(image="host"),
                **changes,
            }
        )
        prepared = prepare_job(spec, tmp_path / "job")
        return asyncio.run(run_prepared(prepared, watcher or Watcher()))

    return go


@pytest.mark.parametrize(
    ("look", "said"),
    [("program", "no program 'python3'"), ("script", "no file 'agent.py' in the sandbox of task 'one'")],
)
def test_what_a_command_cannot_start_without_stops_the_job_before_anything_runs(run, tmp_path, look, said):
    machine = Machine(look)
    with pytest.raises(PreflightError, match=said):
        run(machine, "python3 agent.py")
    assert machine.looked == [("python3", "agent.py")]
    assert len(machine.backend.sandboxes) == 1
    assert not (tmp_path / "job").exists()


def test_one_sandbox_for_an_agent_however_many_tasks_and_none_for_the_oracle_and_noop(run):
    machine = Machine()
    agents = (AgentOptions(name="command", command="a"), AgentOptions(name="noop"))
    assert run(machine, agents=agents, attempts=3).finished == 12
    assert machine.looked == [("a", "")]


def test_what_only_some_tasks_lack_stops_nothing_and_is_said_loudly(run, tmp_path):
    (tmp_path / "tasks/two/environment").mkdir(parents=True)
    (tmp_path / "tasks/two/environment/my-agent").write_text("#!/bin/sh")
    machine = Machine()
    machine.looks = iter(["program", ""])
    watcher = Watcher()
    assert run(machine, watcher=watcher).finished == 2
    urgent = [notice.text for notice in watcher.of(Notice) if notice.urgent]
    assert ["no program 'my-agent' in the sandbox of task 'one'" in text for text in urgent] == [True]


def test_an_agent_that_fails_when_it_is_prepared_is_recorded_and_no_concern_of_others(run, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("of a stranger's plug-in")

    monkeypatch.setattr("seatrial.agents.builtin.CommandAgent.prepare", broken)
    watcher = Watcher()
    agents = (AgentOptions(name="command", command="a"), AgentOptions(name="noop"))
    assert run(Machine(), watcher=watcher, agents=agents).finished == 4
    failed = [event.record for event in watcher.of(TrialFinished) if event.record.failure]
    assert {record.agent.name for record in failed} == {"command"}
    assert "of a stranger's plug-in" in "".join(notice.text for notice in watcher.of(Notice) if notice.urgent)


def test_an_agent_that_cannot_be_baked_stops_the_job(run, tmp_path, monkeypatch):
    async def resolve(*_: object) -> None:
        raise BakeError("pi 1.0 could not be baked")

    monkeypatch.setattr("seatrial.images.resolver.ImageResolver.resolve", resolve)
    with pytest.raises(
        PreflightError, match=r"'command' cannot be brought into its sandbox: pi 1\.0 could not be baked"
    ):
        run(Machine())
    assert not (tmp_path / "job").exists()


def test_without_preflight_nothing_is_tried(run):
    machine = Machine("program")
    assert run(machine, run=RunOptions(preflight=False)).finished == 2
    assert machine.looked == []


@pytest.mark.parametrize("look", ["", "something else"])
def test_what_is_not_certain_stops_nothing(run, look):
    assert run(Machine(look)).finished == 2


def test_a_machine_with_a_bad_moment_is_left_to_the_trials(run, monkeypatch):
    async def fail(*_: object) -> None:
        raise HealthcheckError("not ready yet")

    monkeypatch.setattr("seatrial.jobs.preflight._look_around", fail)
    watcher = Watcher()
    assert run(Machine(), watcher=watcher).finished == 2
    assert "could not be tried out: not ready yet" in watcher.of(Notice)[0].text


def test_a_gateway_that_is_not_reached_from_inside_stops_the_job(run, tmp_path):
    (tmp_path / "script.json").write_text('["right"]')
    model = ModelOptions(upstream=f"scripted:{tmp_path}/script.json")
    with pytest.raises(PreflightError, match=r"from inside its sandbox the gateway .* gives no answer: refused"):
        run(Machine(question="no answer: refused"), model=model)


def test_a_provider_that_refuses_our_key_stops_the_job_and_is_asked_once_per_model(run, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-wrong")
    machine = Machine()
    asked: list[Received] = []

    async def scenario() -> None:
        async with FakeProvider(otherwise=Fail(401, "no such key")) as provider:
            upstream = ModelOptions(upstream=f"{provider.base_url},key=SOME_KEY")
            agents = tuple(AgentOptions(name="command", label=f"a{n}", command="a", model="m") for n in range(2))
            with pytest.raises(PreflightError, match="answered 401: no such key"):
                await asyncio.to_thread(run, machine, model=upstream, agents=agents)
            asked.extend(provider.received)

    asyncio.run(scenario())
    assert len(asked) == 1
    assert machine.backend.sandboxes == []


def test_a_provider_that_is_busy_is_left_to_the_trials(run):
    watcher = Watcher()

    async def scenario() -> None:
        async with FakeProvider(otherwise=Fail(503, "later")) as provider:
            upstream = ModelOptions(upstream=f"{provider.base_url},retries=0")
            agents = (AgentOptions(name="command", command="a", model="m"),)
            options = RunOptions(keep_going=True)
            outcome = await asyncio.to_thread(
                run, Machine(), watcher=watcher, model=upstream, agents=agents, run=options
            )
            assert outcome.finished == 2

    asyncio.run(scenario())
    assert "answered 503: later; the trials start anyway" in watcher.of(Notice)[0].text


def test_a_script_loses_no_line_to_it(run, tmp_path):
    (tmp_path / "script.json").write_text('["right"]')
    seen: list[object] = []
    model = ModelOptions(upstream=f"scripted:{tmp_path}/script.json")
    outcome = run(Machine(), model=model, run=RunOptions(keep_going=True), watcher=seen.append)
    assert outcome.finished == 2
    used = [event.record.model_usage for event in seen if isinstance(event, TrialFinished)]
    assert [usage and usage.calls for usage in used] == [0, 0]


def test_time_that_is_over_before_the_first_trial(run, monkeypatch):
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("seatrial.jobs.preflight._look_around", hang)
    outcome = run(Machine(), run=RunOptions(max_wall_sec=0.05))
    assert (outcome.planned, outcome.started, outcome.stopped) == (2, 0, "wall budget")


def test_a_job_that_is_resumed_and_refused_stays(run, tmp_path):
    run(Machine(), run=RunOptions(max_trials=1))
    machine = Machine("program")
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch, lambda: machine.backend)
        with pytest.raises(PreflightError):
            asyncio.run(api.run_prepared(prepare_resume(tmp_path / "job")))
    assert len(prepare_resume(tmp_path / "job").trials) == 1


def test_a_real_sandbox(tmp_path):
    """The program, the script and the gateway of a sandbox as it is."""
    (tmp_path / "script.json").write_text('["right"]')

    def outcome(command: str) -> JobOutcome:
        folder = tmp_path / f"job{len(list(tmp_path.iterdir()))}"
        write_task(tmp_path / "task")
        spec = JobSpec(
            name="j",
            tasks=(str(tmp_path / "task"),),
            agents=(AgentOptions(name="command", command=command),),
            trial=TrialOptions(image="host"),
            model=ModelOptions(upstream=f"scripted:{tmp_path}/script.json"),
        )
        return asyncio.run(run_prepared(prepare_job(spec, folder)))

    with pytest.raises(PreflightError, match="no program 'no-such-program'"):
        outcome("no-such-program")
    with pytest.raises(PreflightError, match=r"no file './agent\.sh'"):
        outcome("sh ./agent.sh")
    assert outcome("cd / && no-such-program || echo right > /app/answer.txt").finished == 1


def test_a_preset_whose_program_does_not_start_stops_the_job(tmp_path):
    backend = FakeBackend(lambda *_: answer(exit_code=127))
    spec = trial_spec(write_task(tmp_path / "task"), options(preset()))
    plan = PreflightPlan(None, (), {"fake": (spec,)})
    with pytest.raises(PreflightError, match=r"'fake' does not start in the image .*127.*--no-preflight"):
        asyncio.run(preflight(plan, Machinery(backend), Watcher()))
