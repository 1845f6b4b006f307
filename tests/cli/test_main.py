"""The `seatrial` command itself: help, version, exit codes, and readers that go away."""

import os
import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import click
import pytest

from seatrial.cli import main
from seatrial.cli.main import REMOVED
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL, Seatrial, start
from tests.conftest import REPOSITORY, sampled

COMMANDS = tuple(main.COMMANDS)
EXAMPLES = REPOSITORY / "examples" / "tasks"


def test_help_lists_every_command_and_loads_none():
    script = (
        "import sys\n"
        "from seatrial.cli.main import run\n"
        "code = run(['--help'])\n"
        "heavy = {'pydantic', 'rich', 'jsonschema', 'yaml', 'orjson', 'seatrial.model', 'seatrial.tasks'}\n"
        "sys.exit(f'loaded {heavy & set(sys.modules)}' if heavy & set(sys.modules) else code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "Error" in done.stderr, "Traceback" in done.stderr) == (0, False, False)
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


def test_a_job_that_needs_no_model_no_build_and_no_lint_is_planned_without_them(make_task, tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "import seatrial.cli.run_command, seatrial.jobs.local, seatrial.trial.run\n"
        "from seatrial.jobs.prepare import prepare_job\n"
        "from seatrial.model.job import AgentOptions, JobSpec\n"
        "spec = JobSpec(name='lean', tasks=(sys.argv[1],), agents=(AgentOptions(name='noop'),))\n"
        "prepare_job(spec, Path(sys.argv[2]))\n"
        "heavy = {'gateway.base', 'images.building.plan', 'tasks.lint', 'scoring.missing_tools', 'stats.paired'}\n"
        "sys.exit(' '.join(name for name in heavy if f'seatrial.{name}' in sys.modules))\n"
    )
    command = [sys.executable, "-c", script, str(make_task()), str(tmp_path / "job")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_every_command_is_under_a_heading(seatrial: Seatrial):
    shown = seatrial("--help").out
    assert "More:" not in shown
    assert [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "] == [
        *("Options:", "Running:", "Results:", "Review:", "Tasks:", "This machine:"),
    ]


def test_the_commands_are_those_with_a_module():
    modules = {path.name.removesuffix("_command.py") for path in (REPOSITORY / "src/seatrial/cli").glob("*_command.py")}
    assert set(COMMANDS) == modules >= {"lint", "schema", "score", "tasks"}


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(seatrial: Seatrial, name: str, flag: str):
    shown = seatrial(name, flag)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"Usage: seatrial {name} ")
    assert max(map(len, shown.out.splitlines())) <= 80


def test_the_version_is_that_of_the_package(seatrial: Seatrial):
    assert seatrial("--version").out == f"seatrial {version('seatrial')}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fly"], "No such command 'fly'"),
        (["rnu"], "there is no command 'rnu'; did you mean `seatrial run`?"),
        (["--fly"], "No such option"),
        (["tasks"], "Missing argument 'PATH'"),
        (["tasks", "a", "b"], "unexpected extra argument"),
        (["lint", "--loud", "a"], "No such option"),
        (["score", "a"], "Missing option '--artifacts'"),
        (["score", "a", "--artifacts", "b", "--policy", "mine"], "'mine' is not one of 'declared', 'text_first'"),
        (["tasks", "/nowhere"], "/nowhere: no such file or folder"),
        (["lint", "/nowhere"], "/nowhere: no such file or folder"),
        (["score", "/nowhere", "--artifacts", "/"], "/nowhere is not a usable task"),
        (["schema", "Nothing"], "no stored type 'Nothing'"),
        (["tasks", "x" * 5000], "File name too long"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_a_usage_error_is_one_line_and_exit_code_2(seatrial: Seatrial, arguments: list[str], complaint: str):
    shown = seatrial(*arguments)
    assert (shown.code, shown.out) == (2, "")
    errors = [line for line in shown.err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert complaint in errors[0]


def test_no_command_at_all_shows_the_help(seatrial: Seatrial):
    shown = seatrial()
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Usage: seatrial ")


@pytest.mark.parametrize(
    "arguments", sampled([["tasks", "/nowhere"], ["fly"], ["score", "/nowhere", "--artifacts", "/"]]), ids=str
)
def test_a_user_never_sees_a_traceback(arguments: list[str]):
    shown = start(*arguments)
    assert shown.code == 2
    assert "Error: " in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    "arguments", sampled([["tasks", EXAMPLES], ["tasks", EXAMPLES, "--json"], ["schema", "TrialRecord"]])
)
def test_a_reader_that_goes_away_is_no_failure(arguments: list[object]):
    """As in `seatrial tasks … | head -1`."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [*SEATRIAL, *map(str, arguments)]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (done.returncode, "Error" in done.stderr, "Traceback" in done.stderr) == (0, False, False)


@pytest.mark.parametrize("where", sampled([">/dev/full", ">&-"]), ids=["full disk", "closed"])
def test_output_that_cannot_be_written_leaves_no_traceback(where: str):
    command = f'"{sys.executable}" -m seatrial tasks "{EXAMPLES}" {where}'
    done = subprocess.run(["sh", "-c", command], env=PLAIN_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_an_interrupted_command_ends_with_130(seatrial: Seatrial, monkeypatch: pytest.MonkeyPatch):
    @click.command("wait")
    def wait() -> None:
        raise KeyboardInterrupt

    module = ModuleType("seatrial.cli.wait_command")
    monkeypatch.setattr(module, "command", wait, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(main.COMMANDS, "wait", "Wait for ever.")
    shown = seatrial("wait")
    assert (shown.code, shown.out, shown.err.strip()) == (130, "", "Interrupted.")


@pytest.mark.parametrize(("command", "option", "value"), REMOVED)
def test_what_was_removed_is_said_in_one_line(seatrial: Seatrial, command, option, value):
    value = value or "anything"
    for words in ((option, value), (f"{option}={value}",)):
        shown = seatrial(*command.split(), "folder", *words)
        assert (shown.code, shown.out) == (2, "")
        assert shown.err.startswith(f"Error: {option}")
        assert shown.err.endswith(f" was removed; {REMOVED[command, option, value if value != 'anything' else '']}\n")


@pytest.mark.parametrize(
    "words",
    [
        ("report", "ctrf", "-o", "-"),
        ("report", "folder", "-o", "-", "--format", "ctrfs"),
        ("report", "folder", "-o", "-", "--format", "junit", "--title", "ctrf", "--bogus"),
        ("export", "folder", "--format", "ctrf"),
    ],
)
def test_other_mistakes_have_their_own_words(seatrial: Seatrial, words):
    shown = seatrial(*words)
    assert shown.code == 2
    assert "removed" not in shown.err
