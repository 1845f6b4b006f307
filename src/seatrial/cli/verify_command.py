"""`seatrial verify TASK --state …`: judge one end state, as an author wants while writing tests."""

import asyncio
import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from seatrial.check.one_state import StateSource, find_round, find_source, open_state
from seatrial.cli.job_options import HARBOR_SPELLINGS, LIMITS, SANDBOX, VERIFICATION, VERIFYING
from seatrial.cli.job_spec import trial_asked
from seatrial.cli.long_run import cancelled_by_signals
from seatrial.cli.options import OptionGroup, grouped, only_options
from seatrial.cli.screen import paint, paint_outcome, show_table
from seatrial.cli.trial_view import read_tail
from seatrial.errors import UsageError
from seatrial.jobs.checks import check_images, check_variables
from seatrial.jobs.machinery import check_verifier_model
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.job import TrialOptions
from seatrial.model.outcome import format_reward
from seatrial.model.record import outcome_of
from seatrial.report import trial as told
from seatrial.report.text import format_duration, harmless
from seatrial.sandbox.runs import Scratch
from seatrial.scoring.repeats import compare_verdicts, lowest, tell_rewards, with_repeats
from seatrial.tasks.load import load_task
from seatrial.trial.end_state import Judged
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
    only_options(VERIFICATION, *VERIFYING),
)
_STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class _StateRun:
    """One run of the verifier, and the folder with what it printed and wrote."""

    verdict: Judged
    folder: Path

    @property
    def reward(self) -> float | None:
        """The reward; None for a run without a verdict."""
        evaluation = self.verdict.evaluation
        return evaluation.reward if evaluation.validity.verifier_completed else None

    def tail(self, stream: str) -> list[str]:
        """The last lines of what it printed."""
        return read_tail(self.folder / f"{stream}.txt", self.folder)


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
    check_verifier_model(trial)
    check_images([loaded], trial)
    check_variables({loaded.id: loaded.config}, [], trial, None)
    with ExitStack() as stack:
        folder = _new_folder(options["keep_output"]) if options["keep_output"] else stack.enter_context(Scratch())
        runs = _judge(round_, source, trial, options["repeat"], folder)
        show = _show_runs_as_json if options["as_json"] else _show_runs
        show(runs, trial.pass_threshold)
    missed = _missed(runs, options["expect"])
    for reason in missed:
        click.echo(f"Not as it should be: {reason}", err=True)
    context.exit(1 if missed else 0)


def _judge(round_: Round, source: StateSource, options: TrialOptions, repeat: int, folder: Path) -> list[_StateRun]:
    """Run the verifier so often; each run has a folder below this one for its files, a single one has it alone."""
    folders = [folder] if repeat == 1 else [folder / str(number) for number in range(1, repeat + 1)]

    async def runs() -> list[_StateRun]:
        async with open_state(round_, source, options, folder) as state:
            return [_StateRun(await state.judge(each), each / "verifier") for each in folders]

    try:
        return asyncio.run(cancelled_by_signals(runs()))
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


def _missed(runs: list[_StateRun], expected: float | None) -> list[str]:
    """Why the verdict is not what it should be; nothing when it is."""
    rewards = [run.reward for run in runs]
    if None in rewards:
        return ["the verifier gave no verdict"]
    others = [reward for reward in rewards if reward is not None and expected is not None]
    wrong = [each for each in others if not math.isclose(each, expected or 0.0, abs_tol=_ROUNDING)]
    return [f"--expect {format_reward(expected)}, and it gave {format_reward(min(wrong))}"] if wrong else []


def _counting_run(runs: Sequence[_StateRun]) -> tuple[_StateRun, EvaluationResult]:
    """The run that counts, and its evaluation with what the others say."""
    run = runs[lowest([each.reward for each in runs])]
    if len(runs) == 1:
        return run, run.verdict.evaluation
    evaluations = [each.verdict.evaluation for each in runs]
    return run, with_repeats(run.verdict.evaluation, compare_verdicts(evaluations, "fresh"))


def _show_runs(runs: Sequence[_StateRun], pass_threshold: float) -> None:
    """Everything an author wants to know, the verdict first."""
    run, evaluation = _counting_run(runs)
    outcome = outcome_of(evaluation, pass_threshold)
    _fact("reward", f"{format_reward(evaluation.reward)}  ({paint_outcome(outcome)})")
    if len(runs) > 1:
        _fact("repeats", f"{tell_rewards([each.reward for each in runs])}; the lowest counts")
    for line in told.validity_lines(evaluation):
        _fact("validity", line)
    if sure := told.confidence(evaluation):
        _fact("confidence", sure)
    for title, table in (("breakdown", told.breakdown_table(evaluation)), ("error tags", told.tags_table(evaluation))):
        if table.rows:
            show_table(title, table)
    _show_end(run)


def _show_end(run: _StateRun) -> None:
    """How the verifier ended, and the last that it printed."""
    ended = run.verdict.judgement.run
    end = "timed out" if ended.timed_out else f"exited with {ended.exit_code}"
    _fact("verifier", f"{end} after {format_duration(ended.duration_sec)}")
    for stream in _STREAMS:
        if lines := run.tail(stream):
            click.echo(paint(f"--- {stream}", bold=True))
            click.echo("\n".join(map(harmless, lines)))


def _fact(label: str, value: str) -> None:
    click.echo(f"{paint(f'{label:<12}', bold=True)}{value}")


def _show_runs_as_json(runs: Sequence[_StateRun], pass_threshold: float) -> None:
    run, evaluation = _counting_run(runs)
    document = {
        "reward": evaluation.reward if run.reward is not None else None,
        "outcome": outcome_of(evaluation, pass_threshold),
        "rewards": [each.reward for each in runs],
        "evaluation": evaluation.model_dump(mode="json"),
        "runs": [_described(each) for each in runs],
    }
    click.echo(json.dumps(document, indent=2))


def _described(run: _StateRun) -> dict[str, Any]:
    ended = run.verdict.judgement.run
    kept = {"exit_code": ended.exit_code, "timed_out": ended.timed_out, "duration_sec": ended.duration_sec}
    return {"reward": run.reward, **kept, **{stream: run.tail(stream) for stream in _STREAMS}}
