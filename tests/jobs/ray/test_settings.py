"""What the engine tells its runners, of all variables only those they may have; and what becomes of late results."""

import asyncio
from typing import Any

import pytest

from seatrial.jobs.ray.engine import keep_late, runner_settings
from seatrial.model.job import AgentOptions, ModelOptions, RunOptions, TrialOptions
from tests.jobs.samples import record


def test_only_the_variables_that_are_needed_leave_this_machine(make_job, monkeypatch):
    for name in ("OPENAI_API_KEY", "MY_KEY", "ALLOWED", "TOKEN", "PRIVATE"):
        monkeypatch.setenv(name, f"value of {name}")
    job = make_job(
        agents=(AgentOptions(name="command", command="true", env={"T": "${TOKEN}", "U": "${UNSET:-none}"}),),
        model=ModelOptions(upstream="https://example.org/v1,key=MY_KEY"),
        trial=TrialOptions(allow_env=("ALLOWED",)),
    )
    settings = runner_settings(job, RunOptions(concurrent=7))
    assert settings.variables.keys() == {"MY_KEY", "ALLOWED", "TOKEN"}
    assert settings.slots == 7


@pytest.mark.parametrize(("upstream", "sent"), [(None, {}), ("openai", {"OPENAI_API_KEY": "k"})])
@pytest.mark.parametrize("of", ["agents", "verifiers"])
def test_a_providers_key_leaves_only_for_its_upstream(make_job, monkeypatch, upstream, sent, of):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    named: dict[str, dict[str, Any]] = {"agents": {"model": ModelOptions(upstream=upstream)}}
    named["verifiers"] = {"trial": TrialOptions(verifier_upstream=upstream)}
    assert runner_settings(make_job(**named[of]), RunOptions()).variables == sent


def test_a_late_result_is_kept_and_does_not_count(make_job):
    job = make_job()

    async def fetch(folder):
        (folder / "log.txt").write_text("late\n")
        return record("add", job=job.store.file.spec.name)

    asyncio.run(keep_late(job.store)("add.noop.1", fetch))
    assert job.store.finished() == set()
    assert job.store.tries() == {"add.noop.1": 1}
    assert (job.store.path / "tries" / "add.noop.1.1" / "log.txt").read_text() == "late\n"
