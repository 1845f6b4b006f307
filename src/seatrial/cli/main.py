"""The `seatrial` command: finds the subcommand, turns our errors into one line and an exit code.

Exit codes: 0 fine, 1 finished but something is below the mark, 2 usage, 3 a gate that cannot tell, 130 interrupted.
"""

import re
import sys
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

import click

from seatrial.cli.program import collect_less, ignore_broken_pipe
from seatrial.errors import SeatrialError, UsageError

# Name → what `seatrial --help` says of it. Written here so that help needs to import no command.
COMMANDS = {
    "agents": "List, show, bake, save and load the agents that are ready to run.",
    "agree": "Say how far reviewers agree, with each other and with the verifier.",
    "annotate": "Add a reviewer's verdict to a trial, beside its reward.",
    "annotations": "Export, import, merge and take back what reviewers said.",
    "calls": "Print what the agent of a trial and its model said to each other.",
    "check": "Find out whether the verifiers of tasks can be trusted.",
    "classify": "Say what agents did in each turn, and name failures by a vocabulary.",
    "compare": "Compare two jobs, or the agents of one, task by task; a gate for CI.",
    "doctor": "Check what sandboxes need on this machine, and say how to get what is missing.",
    "env": "Make a new environment that works, to change into one of your own.",
    "eval": "Evaluate a model on an environment: one of ours, or one made for verifiers.",
    "export": "Write trajectories or training data from what agents and models said.",
    "gateway": "Run the model gateway alone, for trying agents against it.",
    "gc": "Remove what killed runs left behind.",
    "images": "Pull, load, build, list and prune the images that sandboxes are made from.",
    "import": "Import results of verifiers or Harbor as a job.",
    "init": "Make a new task that works, to change into one of your own.",
    "judge": "Have language models answer the questions of a rubric about trials.",
    "leaderboard": "Rank the agents of jobs, each with the ranks it may have.",
    "lint": "Check tasks for mistakes; exit 1 when there are errors.",
    "power": "Say how many tasks or attempts it takes to see a difference.",
    "regrade": "Judge the trials of a job again, without their agents.",
    "report": "Write results as a page, for pull requests, build servers, tables or papers.",
    "resume": "Continue a job that was stopped, or add to it.",
    "run": "Run agents on tasks, each trial in a sandbox of its own.",
    "schema": "Print the JSON Schema of a stored type.",
    "score": "Turn what a verifier wrote into an EvaluationResult.",
    "show": "Show the results of jobs, or everything about one trial.",
    "tasks": "List the tasks below a path, and what is wrong with them.",
    "verify": "Judge one end state by a task's tests, without any agent.",
    "view": "Look at jobs and review their trials in a browser.",
}


_GROUPS = {
    "Running": ("run", "resume", "eval", "env", "gc"),
    "Results": ("view", "show", "leaderboard", "compare", "power", "report", "regrade", "calls", "export", "import"),
    "Review": ("judge", "classify", "annotate", "annotations", "agree"),
    "Tasks": ("init", "tasks", "lint", "verify", "check", "score"),
    "This machine": ("doctor", "agents", "images", "gateway", "schema"),
}


_TABLES = ("agree", "show", "leaderboard", "compare", "power", "report")
"""Commands that read many trials, print and end."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they run."""

    def list_commands(self, _: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = import_module(f"seatrial.cli.{name}_command").command
        assert isinstance(command, click.Command)  # noqa: S101 - the convention of this package
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        named = {name for names in _GROUPS.values() for name in names}
        groups = {**_GROUPS, "More": tuple(name for name in COMMANDS if name not in named)}
        for title, names in groups.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name, COMMANDS[name]) for name in names])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named, or a word about the one that was probably meant."""
        near = get_close_matches(arguments[0], COMMANDS, n=1)
        if arguments[0] not in COMMANDS and near:
            context.fail(f"there is no command {arguments[0]!r}; did you mean `seatrial {near[0]}`?")
        return super().resolve_command(context, arguments)


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from seatrial import __version__  # noqa: PLC0415 - slow, and only this option needs it

        click.echo(f"seatrial {__version__}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def cli() -> None:
    """Run AI agents on Harbor-format tasks and turn what they did into rewards to trust.

    \b
    Start with:
      seatrial doctor
      seatrial init my-task
      seatrial run -p my-task -a oracle -a noop
    """


def main() -> NoReturn:
    collect_less()
    ignore_broken_pipe()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line; what a user can cause comes back as an exit code, never as a traceback."""
    try:
        with _collector_paused(arguments):
            return cli.main(arguments, prog_name="seatrial", standalone_mode=False) or 0
    except (click.ClickException, SeatrialError) as error:
        return _show(error, arguments)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return 130
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        return 2


def _show(error: click.ClickException | SeatrialError, arguments: list[str]) -> int:
    """Print an error, or what to use instead of what was removed from the command line. Returns the exit code."""
    is_usage = isinstance(error, click.UsageError | UsageError)
    if is_usage and (removed := say_what_was_removed(arguments)):
        click.echo(f"Error: {removed}", err=True)
        return 2
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    click.echo(f"Error: {error}", err=True)
    return 2 if is_usage else 1


def _collector_paused(arguments: list[str]) -> AbstractContextManager[None]:
    """Tables of 100,000 trials take 0.3 s less if the collector does not look for cycles among them."""
    if not arguments or arguments[0] not in _TABLES:
        return nullcontext()
    from seatrial.store.records import collector_paused  # noqa: PLC0415 - help needs none of it

    return collector_paused()


# What was removed, with what to use instead: errors say it for one release.

REMOVED = {
    ("report", "--format", "ctrf"): "use --format junit",
    ("export", "--format", "sharegpt"): "use --format openai-jsonl",
    ("check", "--twins", ""): "leave it out, for V13 is gone",
    ("check", "--only", "V13"): "V1 to V12 are left",
    ("check", "--skip", "V13"): "leave it out, for V13 is gone",
    ("images", "--builder", ""): "have Docker build it, and bring it here: `docker save NAME | seatrial images load -`",
    ("annotations", "--format", "label-studio"): "use --format csv or --format jsonl",
    ("annotations", "--format", "argilla"): "use --format csv or --format jsonl",
}
"""The command, the option, and the value of it that was removed; no value where the whole option was."""


def say_what_was_removed(arguments: list[str]) -> str | None:
    """A sentence about the first thing in a refused command line that was removed, None where there is none."""
    typed = " ".join(arguments)
    for (command, option, value), instead in REMOVED.items():
        given = rf"[ =](\S+,)?{value}" if value else ""
        if re.match(rf"{command} (.* )?{option}{given}([ ,=]|$)", typed, re.IGNORECASE | re.DOTALL):
            return f"{f'{option} {value}'.strip()} was removed; {instead}"
    return None
