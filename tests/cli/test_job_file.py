"""Job files, ours and Harbor's: the command line counts more, and mistakes are named with file and key."""

import contextlib
import json
from pathlib import Path

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from seatrial.cli.job_file import build_spec, read_job_file
from seatrial.cli.job_options import new_job_options
from seatrial.cli.job_spec import new_job
from seatrial.errors import JobError
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.verifier_kit import fenced_blocks
from tests.cli_words import new, parse
from tests.conftest import REPOSITORY

OPTIONS = parse(new_job_options)


JOB = """
name = "nightly"
tasks = ["tasks", "/elsewhere"]
attempts = 2
exclude = ["slow-*"]
[[agents]]
name = "command"
label = "mine"
command = "python agent.py"
env = { KEY = "${HOST_KEY}" }
[trial]
isolation = "kill"
pass_threshold = 1
image = "rootfs"
[run]
concurrent = 2
max_wall_sec = 60
"""


@pytest.fixture
def job_file(tmp_path):
    (tmp_path / "rootfs").mkdir()
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def test_a_job_file_holds_all_of_it(job_file, tmp_path):
    spec, folder = new("--job", job_file)
    assert folder == Path("jobs/nightly")
    assert spec.tasks == (f"{tmp_path}/tasks", "/elsewhere")
    assert spec.agents[0].env == {"KEY": "${HOST_KEY}"}
    assert (spec.trial.image, spec.trial.pass_threshold) == (f"{tmp_path}/rootfs", 1.0)
    assert (spec.run.concurrent, spec.run.max_wall_sec) == (2, 60.0)


def test_the_command_line_counts_more(job_file, tmp_path):
    spec, folder = new("--job", job_file, "-k", 5, "-n", 1, "-p", "/only", "-a", "noop", "-o", tmp_path / "other")
    assert (spec.name, folder) == ("other", tmp_path / "other")
    assert (spec.attempts, spec.tasks, [agent.name for agent in spec.agents]) == (5, ("/only",), ["noop"])
    assert (spec.run.concurrent, spec.run.max_wall_sec, spec.trial.isolation) == (1, 60.0, "kill")


def test_a_model_alone_goes_to_the_agents_of_the_file(job_file):
    (agent,) = new("--job", job_file, "-m", "large")[0].agents
    assert (agent.title, agent.command, agent.model) == ("mine", "python agent.py", "large")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("attemps = 3", "attemps: no such key; did you mean attempts?"),
        ("concurrent = 3", "concurrent: no such key; did you mean run.concurrent?"),
        ("[run]\nconcurent = 3", "run.concurent: no such key; did you mean run.concurrent?"),
        ("[trial]\nisolated = 3", "trial.isolated: no such key; did you mean trial.isolation?"),
        ("[[agents]]\nnam = 'x'", "agents.0.nam: no such key; did you mean agents.0.name?"),
        ("[model]\ntemprature = 3", "model.temprature: no such key; did you mean model.temperature?"),
        ("[model]\nconcurrent = 3", "model.concurrent: no such key; did you mean run.concurrent?"),
        ("[trail]\ncpus = 3", "trail: no such key; did you mean trial?"),
        ("[[agents]]\nname='x'\nfiles=[{sorce='x'}]", "agents.0.files.0.sorce: no such key; did you mean agents.0."),
        ("[run]\nzzz = 1", "run.zzz: no such key; the keys of run are "),
        ("[trial]\ncpus = {}", "trial.cpus: expected a valid number, found a table"),
        ("[agents]\nname = 'x'", "agents: expected a valid array, found a table"),
        ("zzz = 1", "zzz: no such key; the keys are name, tasks,"),
        ("attempts = 0", "attempts: expected greater than or equal to 1, found 0"),
        ("attempts = '3'", "attempts: expected a valid integer, found '3'"),
        (
            "[trial]\nisolation = 'none'",
            "trial.isolation: expected 'guarded', 'kill', 'separate' or 'keep', found 'none'",
        ),
        ("[trial]\npass_threshold = nan", "trial.pass_threshold: "),
        ("trial = 3", "trial: expected a table, found 3"),
        ("[run]\n[run]", "not TOML: "),
        ("tasks = 'one'", "tasks: expected a valid array, found 'one'"),
        ("name = 'a/b'", "name: "),
        ("attempts = 2020-01-01", "attempts: "),
        ("attempts = [[[", "not TOML: "),
        ("\udcff", "not TOML: "),
    ],
    ids=lambda value: value[:20].encode("ascii", "replace").decode(),
)
def test_a_mistake_is_named_with_file_and_key(tmp_path, text, complaint):
    path = tmp_path / "job.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    options = [] if "tasks" in text or "agents" in text else ["-p", tmp_path]
    with pytest.raises(JobError) as raised:
        new("--job", path, *options, *([] if "agents" in text else ["-a", "noop"]))
    assert f"{path}: {complaint}" in str(raised.value)


@pytest.mark.parametrize("text", ["tasks = 'one'", "agents = 3", "trial = 3", "[trial]\ncpus = -1"])
def test_the_command_line_hides_no_mistake_of_the_file(tmp_path, text):
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(JobError, match=r"job\.toml: \w+(\.cpus)?: expected"):
        new("-c", tmp_path / "job.toml", "-p", tmp_path, "-a", "noop", "--cpus", 2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("attempts: 2\nattempts: 3\n", "not YAML: line 2: the key 'attempts' is given twice"),
        ("trial: {}\nrun: {retries: 1}\ntrial: {cpus: 1}\n", "not YAML: line 3: the key 'trial' is given twice"),
        ("trial: [\n", "not YAML: line 2: did not find expected node content"),
        ('trial: {ca_file: "a\\0b"}\n', "trial.ca_file: expected text without a zero byte"),
        (
            'agents: [{name: oracle, files: [{source: "a\\0b", target: /x}]}]\n',
            "agents.0.files.0.source: expected text",
        ),
        ("1: 2\n", "1: expected a key that is text, found 1; put it in quotes"),
        ("trial: {image_map: {on: host}}\n", "trial.image_map.True: expected a key that is text, found True"),
    ],
)
def test_keys_that_yaml_reads_otherwise(tmp_path, text, complaint):
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(JobError) as raised:
        new("-c", tmp_path / "job.yaml", "-p", tmp_path, "-a", "noop")
    assert f"job.yaml: {complaint}" in str(raised.value)


_WORDS = st.sampled_from(
    ["tasks", "agents", "trial", "run", "model", "name", "env", "files", "image_map", "cpus", "jobs_dir", "datasets"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(values=st.dictionaries(_WORDS | st.text(max_size=5), _VALUES, max_size=5), damage=st.binary(max_size=3))
def test_whatever_strangers_write_is_a_job_or_a_mistake_with_a_name(tmp_path_factory, values, damage):
    path = tmp_path_factory.getbasetemp() / "strange.yaml"
    path.write_bytes(json.dumps(values).encode() + damage)
    complaint = complaint_of(path)
    assert complaint is None or any(word in complaint for word in (str(path), "no tasks", "no agent", "image"))


def complaint_of(path: Path) -> str | None:
    try:
        new_job({**OPTIONS, "job_file": path})
    except JobError as error:
        return str(error)
    return None


@given(data=st.binary(max_size=40))
def test_whatever_bytes_strangers_give_are_refused_by_name(tmp_path_factory, data):
    for name in ("bytes.toml", "bytes.yaml"):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(data)
        with contextlib.suppress(JobError):
            read_job_file(path)


def test_files_of_a_job_file_are_taken_from_where_it_lies(tmp_path):
    text = "files = ['mine', 'more:/opt/more', {source = 'x', target = '/x'}]\n[trial]\nca_file = 'ca.pem'\n"
    (tmp_path / "job.toml").write_text(f"tasks = ['.']\n[[agents]]\nname = 'command'\ncommand = 'x'\n{text}")
    spec = new("--job", tmp_path / "job.toml")[0]
    assert [(each.source, each.target) for each in spec.agents[0].files] == [
        (f"{tmp_path}/mine", "/agent"),
        (f"{tmp_path}/more", "/opt/more"),
        (f"{tmp_path}/x", "/x"),
    ]
    assert spec.trial.ca_file == f"{tmp_path}/ca.pem"


def test_a_job_file_may_be_yaml(tmp_path):
    (tmp_path / "job.yaml").write_text("tasks: [here]\nagents: [{name: noop}]\nattempts: 2\ntrial: {cpus: 2}\n")
    spec = new("-c", tmp_path / "job.yaml")[0]
    assert (spec.tasks, spec.attempts, spec.trial.cpus) == ((f"{tmp_path}/here",), 2, 2.0)
    (tmp_path / "job.yaml").write_text("- a\n")
    with pytest.raises(JobError, match=r"job\.yaml: not YAML: expected one document with keys and values"):
        new("-c", tmp_path / "job.yaml")


def test_a_missing_name_of_an_agent_is_said(tmp_path):
    (tmp_path / "job.toml").write_text("tasks = ['.']\n[[agents]]\nmodel = 'x'\n")
    with pytest.raises(JobError, match=r"agents\.0\.name: Field required$"):
        new("--job", tmp_path / "job.toml")


def test_the_documented_job_file_is_one_and_every_key_is_documented():
    page = (REPOSITORY / "docs/running.md").read_text()
    (example,) = [block.body for block in fenced_blocks(page) if block.info == "toml"]
    build_spec(tomli.loads(example), "docs/running.md")
    models = (JobSpec, AgentOptions, TrialOptions, RunOptions)
    keys = {name for model in models for name in model.model_fields} - {"agents", "trial", "run"}
    assert {key for key in keys if f"`{key}`" not in page} == set()


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


def test_the_command_line_counts_more_than_harbor_s_file(config):
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
