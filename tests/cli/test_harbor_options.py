"""Command lines as users of Harbor type them: each option works, or says in one line what ours is."""

import click
import pytest
from click.testing import CliRunner

from seatrial.cli.harbor_options import HARBOR_SPELLINGS
from seatrial.cli.job_options import new_job_options
from seatrial.cli.run_command import command as run_command
from tests.cli.test_job_options import new

HELP = ["-h", "--help"]  # as in the program: a command remembers those it was first asked for


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
