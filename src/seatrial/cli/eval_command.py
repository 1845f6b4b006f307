"""`seatrial eval ENV`: roll out a model on an environment, score it, and keep every rollout."""

import asyncio
import logging
import shlex
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from seatrial.cli.eval_options import GROUPS, UNLISTED, eval_options
from seatrial.cli.eval_prepared import PreparedEval, prepare_eval
from seatrial.cli.eval_running import figures_json, show_figures
from seatrial.cli.job_options import GATES
from seatrial.cli.long_run import cancelled_by_signals
from seatrial.cli.options import grouped
from seatrial.cli.program import command_line
from seatrial.cli.progress import Beginning, Display, LinesDisplay, choose_display, write_event
from seatrial.cli.running import INTERRUPTED, ROUNDING, Gates, terminated_like_interrupted
from seatrial.env.figures import EvalFigures, evaluation_figures, outcome_of_output, threshold_of
from seatrial.env.loading import module_error
from seatrial.env.results import Output, Results
from seatrial.env.saving import METADATA, keep_metadata, read_outputs, write_results
from seatrial.errors import SeatrialError, StoreError
from seatrial.model.events import Notice
from seatrial.model.outcome import format_reward
from seatrial.report.text import counted
from seatrial.trial.events import RolloutFinished

_EXAMPLES = """
seatrial eval my-env -m gpt-5-mini -n 20 -r 4
seatrial eval ./environments/my_env -m my-model -b http://localhost:8000/v1
seatrial eval my-env -a '{"level": 2}' --upstream scripted:answers.jsonl
seatrial eval my-env -m gpt-5-mini --resume
"""
_TOLD_ANYWAY = "seatrial.env.run_row"  # a rollout that came to nothing has a line of its own


class _OutputTeller:
    """Tells a display of the outputs that have come, in the way environments tell of them."""

    def __init__(self, prepared: PreparedEval, display: Display) -> None:
        self._prepared = prepared
        self._display = display
        self._rollouts: Counter[str] = Counter()

    def __call__(self, outputs: Sequence[Output], new: Sequence[Output], metadata: Any = None) -> None:
        for output in new:
            self._display.observe(self._event(output))

    def _event(self, output: Output) -> RolloutFinished:
        env = self._prepared.environment
        example = str(output["task"] if env.rollouts_are_trials else f"example {output['example_id']}")
        self._rollouts[example] += 1
        error, timing = output["error"] or {}, output["timing"]
        milliseconds = timing.get("total_ms") if isinstance(timing, Mapping) else None
        return RolloutFinished(
            rollout_id=f"{example}.{self._rollouts[example]}",
            agent=self._prepared.model.name,
            outcome=outcome_of_output(output, threshold_of(output, env.pass_threshold, env.pass_thresholds)),
            reward=output["reward"],
            seconds=milliseconds / 1000 if isinstance(milliseconds, int | float) else None,
            reason=str(error.get("message", "")),
        )


class _ToDisplay(logging.Handler):
    """Lets a display say what the library warns of."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != _TOLD_ANYWAY:
            self._loop.call_soon_threadsafe(self._display.observe, Notice(record.getMessage()))


@dataclass(frozen=True, slots=True)
class _EvalEnding:
    """How it ended; without `results` what counts is what was kept."""

    prepared: PreparedEval
    ended: Literal["complete", "interrupted", "failed"]
    results: Results | None


@click.command("eval", cls=grouped(*GROUPS, unlisted=UNLISTED), epilog=_EXAMPLES)
@eval_options
@GATES
@click.pass_context
def command(
    context: click.Context, /, fail_under: float | None, max_failed: float, max_invalid: float, **options: Any
) -> None:
    """Roll out a model on the environment ENV: a Python file, a folder, or the name of an installed module.

    Exits with 1 when a gate is missed, with 130 when it was interrupted; what is done is kept, and --resume goes on.
    """
    with terminated_like_interrupted(), _speaking(debug=options["debug"]):
        prepared = prepare_eval(options)
        _begin_folder(prepared)
        gates = Gates(fail_under, max_failed, max_invalid)
        code = _carry_out_eval(prepared, _display(options), gates)
    context.exit(code)


def _display(options: dict[str, Any]) -> Display:
    if options["plain"] and not options["as_json"] and not options["quiet"]:
        return LinesDisplay()
    return choose_display(as_json=options["as_json"], quiet=options["quiet"])


@contextmanager
def _speaking(*, debug: bool) -> Iterator[None]:
    """With `debug`, the log and the traceback behind an error go to stderr; usually neither does."""
    log, level = logging.getLogger("seatrial"), logging.getLogger("seatrial").level
    handler: logging.Handler = logging.StreamHandler(sys.stderr) if debug else logging.NullHandler()
    log.addHandler(handler)
    try:
        if debug:
            log.setLevel(logging.DEBUG)
        yield
    except SeatrialError as error:
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _carry_out_eval(prepared: PreparedEval, display: Display, gates: Gates) -> int:
    """Run an evaluation to its end, show it, and return the exit code: 0, 1 for less than was asked for, 130.

    Raises what it cannot go on with, such as a StoreError, when what is done has been kept.
    """
    results: Results | None = None
    try:
        try:
            display.begin(_beginning(prepared))
            results = asyncio.run(cancelled_by_signals(_evaluate(prepared, display)))
        finally:
            display.close()
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _conclude(_EvalEnding(prepared, "interrupted", None), gates)
    except SeatrialError:
        _conclude(_EvalEnding(prepared, "failed", None), gates)
        raise
    return _conclude(_EvalEnding(prepared, "complete", results), gates)


def _beginning(prepared: PreparedEval) -> Beginning:
    name = prepared.environment.env_id
    return Beginning(name, prepared.folder or Path(name), prepared.planned, unit="rollout")


async def _evaluate(prepared: PreparedEval, display: Display) -> Results:
    environment, seen = prepared.environment, _OutputTeller(prepared, display)
    how = _arguments(prepared, seen)
    with _log_to(display):
        display.observe(Notice(_in_words(prepared)))
        try:
            async with environment:
                return await _run(prepared, how)
        except (SeatrialError, OSError):
            raise
        except Exception as error:
            raise module_error(environment.env_id, "the evaluation failed", error, prepared.home) from error


async def _run(prepared: PreparedEval, how: Mapping[str, Any]) -> Results:
    model = prepared.model
    return await prepared.environment.evaluate(
        model.client,
        model.name,
        num_examples=prepared.num_examples,
        rollouts_per_example=prepared.rollouts,
        shuffle=prepared.seed is not None,
        seed=prepared.seed,
        **how,
    )


def _arguments(prepared: PreparedEval, seen: "_OutputTeller") -> dict[str, Any]:
    options = prepared.options
    wanted = {
        "sampling_args": prepared.sampling_args,
        "max_concurrent": -1 if options["concurrent"] is None else options["concurrent"],
        "state_columns": options["state_columns"],
        "save_to": prepared.folder,
        "resume": prepared.resume,
        "engine": options["engine"],
        "address": options["address"],
        "independent_scoring": options["independent_scoring"] or None,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    if options["retries"] is not None:
        given["max_retries"] = options["retries"]
    return {**given, "on_progress": seen}


def _in_words(prepared: PreparedEval) -> str:
    examples = prepared.planned // prepared.rollouts
    each = "once" if prepared.rollouts == 1 else f"{prepared.rollouts} times each"
    return f"{prepared.environment.env_id}: {counted(examples, 'example')}, {each}, by {prepared.model.name}"


@contextmanager
def _log_to(display: Display) -> Iterator[None]:
    log, handler = logging.getLogger("seatrial"), _ToDisplay(display)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _conclude(end: _EvalEnding, gates: Gates) -> int:
    """Write and show what there is, and return the exit code."""
    prepared = end.prepared
    if end.ended == "failed" and _leave_nothing(prepared):
        return 1
    outputs = end.results["outputs"] if end.results else _kept(prepared)
    environment = prepared.environment
    figures = evaluation_figures(
        outputs,
        prepared.planned,
        environment.pass_threshold,
        environment.pass_thresholds,
        by_task=environment.rollouts_are_trials,
        model=prepared.model.name,
    )
    known = end.results["metadata"] if end.results else {}
    metadata = {**known, **figures_json(figures), **_metadata(end)}
    if prepared.folder is not None and prepared.folder.is_dir():
        write_results(prepared.folder, outputs)
        keep_metadata(prepared.folder, metadata)
    reasons = [*_missed_gates(figures, gates)] if end.ended == "complete" else []
    code = INTERRUPTED if end.ended == "interrupted" else int(bool(reasons) or end.ended == "failed")
    if prepared.options["as_json"]:
        _tell_program(end, metadata, reasons, code)
    else:
        _tell(end, figures, reasons)
    return code


def _missed_gates(figures: EvalFigures, gates: Gates) -> Iterator[str]:
    """Why an evaluation is not good enough, a line per reason."""
    found, mean = figures.figures, figures.figures.mean
    if gates.fail_under is not None and mean is None:
        yield f"no rollout has a reward, --fail-under wants a mean of {gates.fail_under:g}"
    elif gates.fail_under is not None and mean is not None and mean < gates.fail_under - ROUNDING:
        yield f"the mean reward {format_reward(mean)} is below --fail-under {gates.fail_under:g}"
    if figures.failed and figures.failed / found.finished > gates.max_failed:
        yield (
            f"{figures.failed} of {found.finished} rollouts came to nothing, more than the share --max-failed "
            f"{gates.max_failed:g}; --resume tries again what may pass"
        )
    judged = found.scored + found.invalid
    if found.invalid and found.invalid / judged > gates.max_invalid:
        yield (
            f"the verifier could not judge {found.invalid} of {judged} rollouts, more than the share --max-invalid "
            f"{gates.max_invalid:g}"
        )


def _begin_folder(prepared: PreparedEval) -> None:
    """Say in the folder of a new evaluation what it is, before the first rollout. Raises StoreError.

    A job's folder says so itself.
    """
    if prepared.folder is not None and not prepared.environment.rollouts_are_trials:
        keep_metadata(prepared.folder, _metadata(_EvalEnding(prepared, "interrupted", None)))


def _leave_nothing(prepared: PreparedEval) -> bool:
    """Whether it ended before it had anything; then no folder stays that would only be in the way."""
    folder = prepared.folder
    if folder is None or not folder.is_dir():
        return True
    if any(path.name != METADATA for path in folder.iterdir()):
        return False
    (folder / METADATA).unlink(missing_ok=True)
    folder.rmdir()
    if prepared.options["output"] is None and not any(folder.parent.iterdir()):
        folder.parent.rmdir()
    return True


def _kept(prepared: PreparedEval) -> list[Output]:
    if prepared.folder is None or not prepared.folder.is_dir():
        return []
    try:
        return read_outputs(prepared.folder)
    except StoreError:  # it ended before there was any
        return []


def _metadata(end: _EvalEnding) -> dict[str, Any]:
    from seatrial import __version__  # noqa: PLC0415 - slow, and only this needs it

    prepared = end.prepared
    return {
        **prepared.settings,
        "status": "complete" if end.ended == "complete" else "incomplete",
        "base_url": prepared.model.address,
        "num_examples": prepared.planned // prepared.rollouts,
        "rollouts_per_example": prepared.rollouts,
        "planned": prepared.planned,
        "state_columns": list(prepared.options["state_columns"]),
        "pass_threshold": prepared.environment.pass_threshold,
        "seatrial_version": __version__,
    }


def _tell_program(end: _EvalEnding, metadata: dict[str, Any], reasons: list[str], code: int) -> None:
    folder = str(end.prepared.folder) if end.prepared.folder else None
    write_event(
        "evaluation_finished", folder=folder, ended=end.ended, exit_code=code, reasons=reasons, summary=metadata
    )


def _tell(end: _EvalEnding, figures: EvalFigures, reasons: list[str]) -> None:
    show_figures(figures, end.prepared.model.name)
    for reason in reasons:
        click.echo(reason, err=True)
    folder = end.prepared.folder
    if folder is None:
        click.echo("Nothing was kept, as --no-save-results says.", err=True)
    elif end.ended == "complete":
        click.echo(f"Look at it with: {command_line('show', str(folder))}", err=True)
    else:
        how = "Interrupted." if end.ended == "interrupted" else "Stopped by an error."
        kept = f"{figures.figures.finished} of {figures.figures.planned} rollouts are kept in {folder}."
        click.echo(f"{how} {kept} Continue with the same command and --resume {shlex.quote(str(folder))}", err=True)
