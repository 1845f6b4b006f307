"""Harbor's job configuration as a job of ours, or the keys for which there is no counterpart."""

import pytest

from seatrial.errors import JobError
from tests.cli.test_job_options import new

CONFIG = """
job_name: nightly
jobs_dir: my/jobs
n_attempts: 3
timeout_multiplier: 2.0
orchestrator: {type: local, n_concurrent_trials: 8, quiet: false, retry: {max_retries: 1}}
environment: {type: docker, force_build: true, delete: true, override_memory_mb: 4096}
agents:
  - {name: oracle}
  - {name: command, model_name: a, kwargs: {}}
  - {name: command, model_name: b, env: {K: v}}
datasets:
  - {path: tasks, task_names: ["a*"], exclude_task_names: [b], n_tasks: 4}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(CONFIG)
    return tmp_path / "job.yaml"


def test_it_means_the_same_here(config, tmp_path):
    spec, folder = new("-c", config)
    assert (spec.name, str(folder), spec.attempts) == ("nightly", "my/jobs/nightly", 3)
    assert (spec.tasks, spec.include, spec.exclude, spec.max_tasks) == ((f"{tmp_path}/tasks",), ("a*",), ("b",), 4)
    assert (spec.run.concurrent, spec.run.retries) == (8, 1)
    trial = spec.trial
    assert (trial.backend, trial.build, trial.memory_mb) == ("docker", "always", 4096)
    assert (trial.agent_timeout_multiplier, trial.verifier_timeout_multiplier) == (2.0, 2.0)
    assert [(agent.title, agent.model) for agent in spec.agents] == [
        ("oracle", None),
        ("command-a", "a"),
        ("command-b", "b"),
    ]
    assert spec.agents[2].env == {"K": "v"}


def test_the_command_line_counts_more(config):
    assert new("-c", config, "-k", 9)[0].attempts == 9


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("verifier: {disable: true}", "verifier.disable"),
        ("agents: [{name: x, import_path: 'a:B'}]", "agents.0.import_path"),
        ("datasets: [{name: terminal-bench, version: '2.0'}]", "datasets.0.name, datasets.0.version"),
        ("tasks: [{path: x, git_url: y}]", "tasks.0.git_url"),
        ("artifacts: [/x]", "artifacts"),
        ("metrics: [{type: uv-script}]", "metrics"),
    ],
)
def test_what_has_no_counterpart_is_named(tmp_path, more, key):
    (tmp_path / "job.yaml").write_text(f"job_name: x\n{more}\n")
    with pytest.raises(JobError, match=rf"job\.yaml: Harbor's {key} cannot be had here; take it out"):
        new("-c", tmp_path / "job.yaml")
