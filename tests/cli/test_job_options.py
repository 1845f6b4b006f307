"""The options of `seatrial run`: those that fields of a job declare, and Harbor's, which work or say what ours is."""

import click
import pytest
from click.testing import CliRunner

from seatrial.cli.job_file import build_spec
from seatrial.cli.job_options import HARBOR_SPELLINGS, new_job_options
from seatrial.cli.job_spec import new_job
from seatrial.cli.run_command import command as run_command
from seatrial.model.job import JobSpec
from seatrial.model.options import Declared, declared_options, option_words
from tests.cli_words import new, odd_value, taken_apart

HELP = ["-h", "--help"]  # as in the program: a command remembers those it was first asked for
DECLARED = list(declared_options(JobSpec))


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


def help_of_run() -> dict[str, str]:
    """What the help says below each heading, on one line."""
    shown = CliRunner().invoke(run_command, ["--help"], terminal_width=120, help_option_names=HELP).output
    sections = [section.partition(":\n") for section in shown.split("\n\n")]
    return {title: " ".join(text.split()) for title, _, text in sections}


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.key)
def test_what_a_field_declares_is_in_the_help_and_in_a_job_file_and_comes_back_from_words(declared: Declared):
    option = declared.option
    said = help_of_run()[option.group]
    assert option.long.partition("/")[0] in said
    assert option.help in said
    if declared.key.startswith("agents."):
        return  # which agents a command line asks for is more than a value: see test_job_spec
    value = odd_value(declared)
    table, _, name = declared.key.rpartition(".")
    plain = {"name": "job", "tasks": ["/x"], "agents": [{"name": "noop"}]}
    of_file = build_spec({**plain, **({table: {name: value}} if table else {name: value})}, "job.toml")
    words = [] if declared.key == "tasks" else option_words(option, value)
    assert new_job(taken_apart("run", ["-p", "/x", "-a", "noop", "-o", "/tmp/job", *words]))[0] == of_file


def test_spellings_that_work(tmp_path):
    (tmp_path / "data").mkdir()
    spec, folder = new(
        *[
            "-d",
            tmp_path / "data",
            "-a",
            "nop",
            "--command",
            "x",
            "--n-attempts",
            2,
            "--n-concurrent",
            3,
            "--env",
            "docker",
            "-y",
        ],
        *["-i", "a*", "-t", "b*", "-x", "c*", "-l", 5, "--override-memory-mb", 700, "--override-storage-mb", 800],
        *["--override-cpus", 2, "-r", 1, "--jobs-dir", "d", "--job-name", "n", "--delete", "--ae", "A=b"],
    )
    assert (spec.tasks, spec.attempts, spec.max_tasks) == ((f"{tmp_path}/data",), 2, 5)
    assert (spec.include, spec.exclude) == (("a*", "b*"), ("c*",))
    assert (spec.run.concurrent, spec.run.retries, spec.trial.backend) == (3, 1, "docker")
    assert (spec.trial.cpus, spec.trial.memory_mb, spec.trial.storage_mb) == (2.0, 700, 800)
    assert (spec.agents[1].env, str(folder)) == ({"A": "b"}, "d/n")


@pytest.mark.parametrize(
    ("arguments", "ours"),
    [
        (["--agent-import-path", "a:B"], "--agent-files"),
        (["--no-delete"], "--keep snapshot"),
        (["--artifact", "/x"], "artifacts"),
        (["--disable-verification"], "every trial is verified"),
        (["-d", "terminal-bench@2.0"], "name the folder with -p"),
        (["--override-gpus", "1"], "--force"),
        (["--task-git-url", "x"], "-p"),
    ],
)
def test_what_is_otherwise_here_is_said_in_a_line(arguments, ours):
    done = CliRunner().invoke(click.command()(new_job_options(lambda **_: None)), arguments)
    assert done.exit_code == 2
    assert ours in " ".join(done.output.split())


def test_options_under_headings_within_eighty_columns_and_harbor_s_spellings_are_not_listed():
    shown = CliRunner().invoke(run_command, ["--help"], terminal_width=80, help_option_names=HELP).output
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [
        *("What to run:", "Agents:", "Models:", "Limits and budgets:", "Sandbox and images:", "Verification:"),
        *("Output:", "Other options:", "Examples:"),
    ]
    assert max(map(len, shown.splitlines())) <= 80
    listed = {word.strip(",") for line in shown.splitlines() for word in line.split()[:3] if word.startswith("-")}
    assert not listed & HARBOR_SPELLINGS
    assert "[x>" not in shown


def test_an_option_that_is_nearly_right_is_suggested():
    done = CliRunner().invoke(run_command, ["--agent-fils", "x"], help_option_names=HELP)
    assert "Did you mean" in done.output
    assert "--agent-files" in done.output
