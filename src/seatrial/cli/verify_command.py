"""`seatrial verify TASK --state …`: judge one end state, as an author wants while writing tests."""

import asyncio
import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from seatrial.check.one_state import StateSource, find_round, find_source, open_state
from seatrial.cli.harbor_options import HARBOR_SPELLINGS
from seatrial.cli.job_asked import trial_asked
from seatrial.cli.job_options import LIMITS, SANDBOX, VERIFICATION, only_options
from seatrial.cli.long_run import cancelled_by_signals
from seatrial.cli.option_groups import OptionGroup, grouped
from seatrial.cli.verify_view import StateRun, show_runs, show_runs_as_json
from seatrial.errors import UsageError
from seatrial.jobs.strangers import check_images
from seatrial.jobs.variables import check_variables
from seatrial.model.job import TrialOptions
from seatrial.sandbox.scratch import Scratch
from seatrial.tasks.load import load_task
from seatrial.trial.rounds import Round

_EXAMPLES = """
seatrial verify my/task
seatrial verify my/task --state my/task/golden/pass --expect 1
seatrial verify my/task --state jobs/first/trials/task.agent.1 --repeat 5
"""
_ROUNDING = 1e-9
_WHAT = OptionGroup(
    "What to judge",
    (
        click.option(
            "--state",
            type=click.Path(path_type=Path),
            metavar="PATH",
            help="A folder of files as below /, a snapshot.tar.zst, or a trial's folder.  [nobody did anything]",
        ),
        click.option("--step", metavar="NAME", help="The step to judge, for a task with several."),
        click.option(
            "--repeat",
            type=click.IntRange(1, 1000),
            default=1,
            metavar="N",
            help="Judge it N times, and say what differs.  [1]",
        ),
        click.option(
            "--expect", type=click.FloatRange(0.0, 1.0), metavar="REWARD", help="Exit with 1 for any other reward."
        ),
    ),
)
_OUTPUT = OptionGroup(
    "Output",
    (
        click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object."),
        click.option(
            "--keep-output",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Keep what the verifier printed and wrote, in a new folder.",
        ),
    ),
)
_HOW = (
    SANDBOX,
    only_options(LIMITS, "cpus", "memory_mb", "storage_mb", "verifier_timeout_multiplier", "enforcement"),
    only_options(VERIFICATION, "isolation", "trust", "pass_threshold", "verdict"),
)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is judged, how, how often, and where its files go."""

    round: Round
    source: StateSource
    options: TrialOptions
    repeat: int
    folder: Path

    async def ask(self) -> list[StateRun]:
        """Every run in its order."""
        names = [""] if self.repeat == 1 else [str(number) for number in range(1, self.repeat + 1)]
        async with open_state(self.round, self.source, self.options, self.folder) as state:
            folders = [self.folder / name for name in names]
            return [StateRun(await state.judge(folder), folder / "verifier") for folder in folders]


@click.command("verify", cls=grouped(_WHAT, *_HOW, _OUTPUT, unlisted=HARBOR_SPELLINGS), epilog=_EXAMPLES)
@click.argument("task", type=click.Path())
@_WHAT
@_HOW[0]
@_HOW[1]
@_HOW[2]
@_OUTPUT
@click.pass_context
def command(context: click.Context, /, task: str, **options: Any) -> None:
    """Judge one end state by the tests of TASK, without any agent: reward, breakdown, tags, and what the tests print.

    The files of a folder lie over the untouched environment: what is in workspace/ comes to /workspace. Exits with 1
    when the verifier gives no verdict, or another reward than --expect says.
    """
    source = find_source(options["state"])
    loaded = load_task(task)
    round_ = find_round(loaded, options["step"])
    trial = trial_asked(options, source.options)
    check_images([loaded], trial)
    check_variables({loaded.id: loaded.config}, [], trial, None)
    with ExitStack() as stack:
        folder = _new_folder(options["keep_output"]) if options["keep_output"] else stack.enter_context(Scratch())
        runs = _ask(_Question(round_, source, trial, options["repeat"], folder))
        show = show_runs_as_json if options["as_json"] else show_runs
        show(runs, trial.pass_threshold)
    missed = _missed(runs, options["expect"])
    for reason in missed:
        click.echo(f"Not as it should be: {reason}", err=True)
    context.exit(1 if missed else 0)


def _ask(question: _Question) -> list[StateRun]:
    try:
        return asyncio.run(cancelled_by_signals(question.ask()))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _new_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"--keep-output {folder}: there is something in it; name a new folder")
    except OSError as error:
        raise UsageError(f"--keep-output {folder}: cannot be made: {error.strerror}") from error
    return folder.absolute()


def _missed(runs: list[StateRun], expected: float | None) -> list[str]:
    """Why the verdict is not what it should be; nothing when it is."""
    rewards = [run.reward for run in runs]
    if None in rewards:
        return ["the verifier gave no verdict"]
    others = [reward for reward in rewards if reward is not None and expected is not None]
    wrong = [each for each in others if not math.isclose(each, expected or 0.0, abs_tol=_ROUNDING)]
    return [f"--expect {expected:g}, and it gave {min(wrong):g}"] if wrong else []
