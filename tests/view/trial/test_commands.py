"""The commands of a trial: what `seatrial run` makes of the one that runs it again is the job it came from."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.job_asked import new_job
from seatrial.model.job import AgentFiles, AgentOptions, JobSpec, ModelOptions, TrialOptions
from seatrial.model.record import KeptState, ModelUsage
from seatrial.view.trial.commands import commands_for
from tests.cli_words import taken_apart
from tests.jobs.samples import record
from tests.view.trial.trials import keep_trial, opened

ODD_TRIAL: dict[str, Any] = {
    "backend": "podman",
    "image": "host",
    "image_map": {"python:3.11": "host"},
    "image_fallback": "refuse",
    "build": "always",
    "isolation": "kill",
    "enforcement": "partial",
    "network": "none",
    "private_hosts": "allow",
    "cpus": 1.5,
    "memory_mb": 512,
    "storage_mb": 3000,
    "agent_timeout_sec": 90.5,
    "agent_timeout_multiplier": 1.0000001,
    "verifier_timeout_multiplier": 3.0,
    "pass_threshold": 0.123456789,
    "keep": "snapshot",
    "trust": "as_left",
    "verdict": "exit_status",
    "verify_repeats": 3,
    "max_busy": 0.25,
    "allow_env": ("HOME", "LANG"),
    "unfit": "run",
    "ca_file": "/etc/ca.pem",
    "proxy": "host",
}
ODD_MODEL: dict[str, Any] = {
    "upstream": "openai",
    "translate": "strict",
    "temperature": 0.25,
    "max_output_tokens": 7,
    "max_turns": 8,
    "max_tokens": 9,
    "max_cost_usd": 0.5,
    "prices": "/prices.toml",
}


def lines(folder: Path, agent: AgentOptions, **more: Any) -> list[str]:
    spec = {name: more.pop(name) for name in ("trial", "model") if name in more}
    store = keep_trial(folder, record("add", agent=agent.title, **more), agents=(agent,), **spec)
    return [each.line for each in commands_for(opened(store, f"add.{agent.title}.1"))]


def parsed(line: str) -> JobSpec:
    """What `seatrial run` takes a command line for."""
    program, name, *words = shlex.split(line)
    assert (program, name) == ("seatrial", "run")
    return new_job(taken_apart("run", [*words, "-o", "/tmp/job"]))[0]


def test_every_odd_option_comes_back(tmp_path):
    trial, model = TrialOptions(**ODD_TRIAL), ModelOptions(**ODD_MODEL)
    agent = AgentOptions(name="command", command="it's 'an agent'\n--model x", model="m/1", env={"KEY": "a b=c"})
    read = parsed(lines(tmp_path / "job", agent, trial=trial, model=model)[-1])
    assert read.trial == trial
    assert read.model == model
    assert read.agents == (agent,)
    assert read.tasks == ("/tasks/gone",)


def test_all_options_of_trials_and_models_are_known():
    without = {"reward_policy", "solution", "layout", "top_p", "seed"}
    assert set(TrialOptions.model_fields) - set(ODD_TRIAL) <= without
    assert set(ModelOptions.model_fields) - set(ODD_MODEL) <= without


@pytest.mark.parametrize(
    "agent",
    [
        AgentOptions(name="oracle"),
        AgentOptions(name="some-agent", version="2.1", model="m", options={"max_turns": "50"}),
        AgentOptions(name="command", command="-x", setup="pip install 'x'", files=(AgentFiles(source="/a"),)),
    ],
)
def test_agents_come_back(tmp_path, agent):
    assert parsed(lines(tmp_path / "job", agent)[-1]).agents == (agent,)


def test_what_has_no_option_is_named(tmp_path):
    trial = TrialOptions(solution="staged")
    store = keep_trial(tmp_path / "job", record("add"), trial=trial, model=ModelOptions(seed=3))
    assert commands_for(opened(store))[-1].note == "no option for: solution, seed; a job file can say it"


def test_judging_again_takes_a_kept_end_state(tmp_path):
    noop = AgentOptions(name="noop")
    shown, ran = lines(tmp_path / "without", noop, end_state=KeptState(kept=False, reason="large"))
    assert shown == f"seatrial show {tmp_path}/without add.noop.1"
    assert ran == "seatrial run -p /tasks/gone -a noop"
    usage = ModelUsage(calls=1)
    kept = lines(tmp_path / "with", noop, end_state=KeptState(kept=True), model_usage=usage)
    assert [line.split()[1] for line in kept] == ["show", "calls", "regrade", "run"]
    assert kept[2] == f"seatrial regrade {tmp_path}/with --trial add.noop.1"
