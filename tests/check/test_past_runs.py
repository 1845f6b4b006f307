"""Attempts of real agents in stored jobs; those of the solution, of nobody and of agents that never ran are none."""

from pathlib import Path

from seatrial.check.past_runs import read_runs, rewards
from seatrial.model.job import AgentOptions
from seatrial.model.record import TrialWarning
from seatrial.store.job_store import JobStore
from tests.jobs.samples import DIGEST, broken_machine, evaluation, job_file, record

AGENTS = (AgentOptions(name="oracle"), AgentOptions(name="command", command="true", label="mine"))


def test_attempts_of_real_agents(tmp_path: Path) -> None:
    store = JobStore.create(tmp_path / "job", job_file(agents=AGENTS, attempts=4))
    kept = [
        record("add", agent="mine", evaluation=evaluation(0.25)),
        record("add", 2, agent="mine", failure=broken_machine()),
        record("add", 3, agent="mine", warnings=(TrialWarning(code="no_model_call", message="none"),)),
        record("add", agent="oracle"),
    ]
    for each in kept:
        with store.draft(each.trial_id) as draft:
            draft.commit(each)
    runs = read_runs([store.path])
    assert [(each.agent, each.reward, each.is_scored) for each in runs.at(DIGEST)] == [
        ("mine", 0.25, True),
        ("mine", None, False),
    ]
    assert rewards(runs.at(DIGEST)) == [0.25]
    assert runs.jobs == (str(store.path),)
    assert runs.rewards_elsewhere(DIGEST, "mine") == []
    assert runs.rewards_elsewhere("another", "mine") == [0.25]
