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


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("n_atempts: 3", "Harbor's n_atempts (did you mean n_attempts?) cannot be had here"),
        ("enviroment: {type: docker}", "Harbor's enviroment.type (did you mean environment.type?) cannot be had"),
        ("agents: [{nam: x}]", "Harbor's agents.0.nam (did you mean agents.0.name?) cannot be had here"),
        ("attempts: 3", "attempts: a key of our job files, but job_name is one of Harbor's; keep to one of the two"),
        ("agents: [oracle]", "agents: expected an array of tables, found ['oracle']"),
        ("datasets: tasks", "datasets: expected an array of tables, found 'tasks'"),
        ("environment: docker", "environment: expected a table, found 'docker'"),
        ("orchestrator: {retry: 3}", "orchestrator.retry: expected a table, found 3"),
        ("jobs_dir: 3", "jobs_dir: expected the path of a folder, found 3"),
        ("n_attempts: x", "n_attempts: expected a valid integer, found 'x'"),
        ("timeout_multiplier: x", "timeout_multiplier: expected a valid number, found 'x'"),
        ("agents: [{name: x, model_name: 3}]", "agents.0.model_name: expected a valid string, found 3"),
        ("datasets: [{path: x, n_tasks: many}]", "datasets.0.n_tasks: expected a valid integer, found 'many'"),
        ("datasets: [{path: x}]\ntasks: [{path: 3}]", "tasks.0.path: expected a valid string, found 3"),
        (
            "n_concurrent_trials: 2\norchestrator: {n_concurrent_trials: 3}",
            "orchestrator.n_concurrent_trials: the same as n_concurrent_trials, which is given too; keep one of them",
        ),
    ],
)
def test_a_mistake_is_named_by_harbors_own_key(tmp_path, text, complaint):
    (tmp_path / "job.yaml").write_text(f"job_name: x\n{text}\n")
    with pytest.raises(JobError) as raised:
        new("-c", tmp_path / "job.yaml", "-p", tmp_path, "-a", "noop")
    assert f"{tmp_path}/job.yaml: {complaint}" in str(raised.value)


def test_what_stands_there_with_nothing_in_it_is_no_mistake(tmp_path):
    (tmp_path / "job.yaml").write_text("job_name: x\nverifier: {disable: false}\nmetrics: []\nenvironment: null\n")
    assert new("-c", tmp_path / "job.yaml", "-p", tmp_path, "-a", "noop")[0].name == "x"
