"""From options and job files to a JobSpec: the command line counts more, and mistakes are named with file and key."""

import contextlib
import json
from pathlib import Path
from typing import Any

import click
import pytest
import tomli
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from seatrial.cli.job_asked import changed_job, new_job
from seatrial.cli.job_file import build_spec, read_job_file
from seatrial.cli.job_options import new_job_options, resumed_job_options
from seatrial.errors import JobError
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.verifier_kit import fenced_blocks
from tests.conftest import REPOSITORY


def parse(decorate: Any, *arguments: object) -> dict[str, Any]:
    """The options as click gives them to a command."""
    taken: dict[str, Any] = {}

    def take(**options: Any) -> None:
        taken.update(options)

    done = CliRunner().invoke(
        click.command()(decorate(take)), [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return taken


def new(*arguments: object) -> tuple[JobSpec, Path]:
    return new_job(parse(new_job_options, *arguments))


OPTIONS = parse(new_job_options)


def test_every_option_has_its_place(tmp_path):
    spec, folder = new(
        *["-p", tmp_path / "a", tmp_path / "b", "-a", "oracle", "-m", "mini", "--command", "run me", "-k", 3, "-n", 4],
        *["-e", "local", "--image", tmp_path, "--verify-isolation", "kill", "--allow-partial-limits"],
        *[
            "--network",
            "none",
            "--allow-private-hosts",
            "--allow-env",
            "A",
            "--allow-env",
            "B",
            "--timeout-multiplier",
            2,
            "--pass-threshold",
            0.5,
        ],
        *["--verdict", "exit_status", "--trust", "as-left", "--verify-repeats", 3],
        *["--keep", "snapshot", "--retries", 0, "--max-trials", 9, "--max-wall", "1h30m", "--shuffle", "--seed", 7],
        *["--include", "a*", "--include", "b*", "--exclude", "c", "-o", tmp_path / "my-job"],
        *["--cpus", 1.5, "--memory", "2G", "--storage", "512M", "--timeout", "10m", "--ca-file", tmp_path / "ca.pem"],
        *["--max-tasks", 9, "--agent-env", "KEY", "--agent-env", "MODE=a=b", "--agent-files", f"{tmp_path}:/opt/x"],
    )
    assert folder == tmp_path / "my-job"
    files = ({"source": str(tmp_path), "target": "/opt/x"},)
    brought = {"env": {"KEY": "${KEY}", "MODE": "a=b"}, "files": files}
    assert spec.model_dump(exclude_unset=True) == {
        "name": "my-job",
        "tasks": (f"{tmp_path}/a", f"{tmp_path}/b"),
        "include": ("a*", "b*"),
        "exclude": ("c",),
        "max_tasks": 9,
        "agents": (
            {"name": "oracle", "model": "mini"},
            {"name": "command", "command": "run me", "model": "mini", **brought},
        ),
        "attempts": 3,
        "trial": {
            "backend": "local",
            "image": str(tmp_path),
            "isolation": "kill",
            "enforcement": "partial",
            "network": "none",
            "private_hosts": "allow",
            "allow_env": ("A", "B"),
            "agent_timeout_multiplier": 2.0,
            "verifier_timeout_multiplier": 2.0,
            "pass_threshold": 0.5,
            "verdict": "exit_status",
            "trust": "as_left",
            "keep": "snapshot",
            "verify_repeats": 3,
            "cpus": 1.5,
            "memory_mb": 2048,
            "storage_mb": 512,
            "agent_timeout_sec": 600.0,
            "ca_file": f"{tmp_path}/ca.pem",
        },
        "run": {"concurrent": 4, "retries": 0, "max_trials": 9, "max_wall_sec": 5400.0, "shuffle_seed": 7},
    }


def test_nothing_but_the_defaults_of_a_job_without_options(tmp_path):
    spec, _ = new("-p", tmp_path, "-a", "noop", "-o", tmp_path / "j")
    assert spec == JobSpec(name="j", tasks=(str(tmp_path),), agents=(AgentOptions(name="noop"),))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172800)]
)
def test_lengths_of_time(text, seconds, tmp_path):
    assert new("-p", tmp_path, "-a", "noop", "--max-wall", text)[0].run.max_wall_sec == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "5 m", "m", "1w", "1e3", "٣m", "9" * 400])
def test_what_is_no_length_of_time(text):
    command = click.command()(new_job_options(lambda **_: None))
    done = CliRunner().invoke(command, ["--max-wall", text])
    assert done.exit_code == 2
    assert "no length of time" in done.output


def test_a_shuffle_without_a_seed_draws_one_and_keeps_it(tmp_path):
    seed = new("-p", tmp_path, "-a", "noop", "--shuffle")[0].run.shuffle_seed
    assert isinstance(seed, int)


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
        ("attempts: 2\nattempts: 3\n", "not YAML: the key 'attempts' is given twice"),
        ("trial: {}\nrun: {retries: 1}\ntrial: {cpus: 1}\n", "not YAML: the key 'trial' is given twice"),
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


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        (["--jobs-dir", "d", "--job-name", "n"], "d/n"),
        (["--job-name", "n"], "jobs/n"),
        (["-o", "x/y"], "x/y"),
    ],
)
def test_where_a_job_goes(options, folder, tmp_path):
    spec, place = new("-p", tmp_path, "-a", "noop", *options)
    assert (spec.name, place) == (folder.rpartition("/")[2], Path(folder))


def test_a_folder_of_jobs_alone_holds_a_job_of_this_moment(tmp_path):
    spec, place = new("-p", tmp_path, "-a", "noop", "--jobs-dir", tmp_path / "d")
    assert (place.parent, place.name) == (tmp_path / "d", spec.name)
    with pytest.raises(JobError, match="-o names the job's own folder"):
        new("-p", tmp_path, "-a", "noop", "--jobs-dir", "d", "-o", "e")


def test_a_missing_name_of_an_agent_is_said(tmp_path):
    (tmp_path / "job.toml").write_text("tasks = ['.']\n[[agents]]\nmodel = 'x'\n")
    with pytest.raises(JobError, match=r"agents\.0\.name: Field required$"):
        new("--job", tmp_path / "job.toml")


STORED = JobSpec(name="j", tasks=("/a",), agents=(AgentOptions(name="noop"),), attempts=2)


def test_resuming_without_options_is_the_same_job():
    assert changed_job(STORED, parse(resumed_job_options)) == STORED


def test_a_model_without_agents_to_add_is_refused():
    with pytest.raises(JobError, match="give -a or --command too"):
        changed_job(STORED, parse(resumed_job_options, "-m", "large"))


def test_resuming_adds_tasks_and_agents_and_replaces_numbers():
    options = parse(resumed_job_options, *["-p", "/a", "-p", "/b", "-a", "oracle", "-k", 5, "-n", 3, "--retries", 1])
    spec = changed_job(STORED, options)
    assert spec.tasks == ("/a", "/b")
    assert [agent.name for agent in spec.agents] == ["noop", "oracle"]
    assert (spec.attempts, spec.run.concurrent, spec.run.retries) == (5, 3, 1)


def test_the_documented_job_file_is_one_and_every_key_is_documented():
    page = (REPOSITORY / "docs/running.md").read_text()
    (example,) = [block.body for block in fenced_blocks(page) if block.info == "toml"]
    build_spec(tomli.loads(example), "docs/running.md")
    models = (JobSpec, AgentOptions, TrialOptions, RunOptions)
    keys = {name for model in models for name in model.model_fields} - {"agents", "trial", "run"}
    assert {key for key in keys if f"`{key}`" not in page} == set()


@pytest.mark.parametrize("name", ["MY*", "*", "A=b", "", "a b"])
def test_variables_are_allowed_by_whole_names(name):
    command = click.command()(new_job_options(lambda **_: None))
    done = CliRunner().invoke(command, ["--allow-env", name])
    assert done.exit_code == 2
    assert "is not the name of a variable" in " ".join(done.output.split())
