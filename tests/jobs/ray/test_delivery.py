"""What a trial needs on its node, and specs and settings as they read there; also the tests of wire.py's specs."""

from pathlib import Path

import pytest

from seatrial.agents.files import lock_files
from seatrial.errors import JobError
from seatrial.jobs.ray.delivery import needs_of, portable, relocated, settings_files, settled
from seatrial.jobs.ray.wire import RunnerSettings, read_spec, write_spec
from seatrial.model.job import AgentFiles, AgentOptions, ModelOptions, TrialOptions

THERE = Path("/node/files")


@pytest.fixture
def agent(tmp_path: Path) -> AgentOptions:
    """One that brings a folder and a file along."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/a.py", "b.py"):
        (tmp_path / name).write_text(name)
    files = tuple(lock_files(AgentFiles(source=str(tmp_path / name))) for name in ("tools", "b.py"))
    return AgentOptions(name="command", command="python3 /agent/b.py", files=files)


def test_a_trial_needs_its_task_and_its_agents_files(make_spec, agent):
    spec = make_spec(agent=agent)
    needs = needs_of(spec)
    assert [(need.kind, need.name) for need in needs] == [("task", None), ("agent", None), ("agent", "b.py")]
    assert [need.digest for need in needs] == [spec.task_digest, *(files.digest for files in agent.files)]


def test_on_its_node_a_trial_finds_them_elsewhere(make_spec, agent):
    spec = make_spec(agent=agent)
    there = relocated(spec, {need.digest: THERE / need.digest for need in needs_of(spec)})
    assert there.task.root == THERE / spec.task_digest
    assert [files.source for files in there.agent.files] == [f"{THERE}/{files.digest}" for files in agent.files]
    assert (there.trial_id, there.task.config, there.agent.command) == (
        spec.trial_id,
        spec.task.config,
        spec.agent.command,
    )


def test_a_spec_is_the_same_after_its_way(make_spec, agent):
    spec = make_spec(agent=agent, memory=512)
    assert read_spec(write_spec(spec)) == spec


def test_files_that_options_name_are_found_on_the_node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("answers.jsonl", "prices.toml", "ca.pem"):
        (tmp_path / name).write_text(name)
    trial, model = portable(
        TrialOptions(ca_file="ca.pem"), ModelOptions(upstream="scripted:answers.jsonl", prices="prices.toml")
    )
    assert model.upstream == f"scripted:{tmp_path}/answers.jsonl"
    files = settings_files(trial, model)
    assert [need.name for need in files] == ["answers.jsonl", "prices.toml", "ca.pem"]
    there = settled(
        RunnerSettings(trial=trial, model=model, files=files),
        {need.digest: THERE / (need.name or "") for need in files},
    )
    assert (there.model.upstream, there.model.prices, there.trial.ca_file) == (
        f"scripted:{THERE}/answers.jsonl",
        f"{THERE}/prices.toml",
        f"{THERE}/ca.pem",
    )


def test_options_without_files_stay_as_they_are():
    trial, model = portable(TrialOptions(), ModelOptions(upstream="https://example.org/v1"))
    settings = RunnerSettings(trial=trial, model=model, files=settings_files(trial, model))
    assert settled(settings, {}) == settings
    assert (trial, model) == (TrialOptions(), ModelOptions(upstream="https://example.org/v1"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(JobError, match=r"ca\.pem: cannot be read"):
        settings_files(TrialOptions(ca_file=str(tmp_path / "ca.pem")), ModelOptions())


def test_settings_show_no_variables():
    secret = RunnerSettings(trial=TrialOptions(), model=ModelOptions(), variables={"KEY": "s3cret"})
    assert "s3cret" not in repr(secret)


def test_a_cache_is_found_at_the_same_path_and_what_is_behind_it_is_sent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("script.jsonl").write_text("")
    trial, model = portable(TrialOptions(), ModelOptions(upstream="cache:kept,scripted:script.jsonl"))
    assert model.upstream == f"cache:{tmp_path}/kept,scripted:{tmp_path}/script.jsonl"
    (need,) = files = settings_files(trial, model)
    there = settled(RunnerSettings(trial=trial, model=model, files=files), {need.digest: THERE})
    assert there.model.upstream == f"cache:{tmp_path}/kept,scripted:{THERE}"
