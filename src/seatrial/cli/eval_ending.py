"""How an evaluation ended: what is written beside its rollouts, what is shown, and the exit code."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import click

from seatrial.cli.eval_prepared import PreparedEval
from seatrial.cli.eval_view import figures_json, show_figures
from seatrial.cli.gates import Gates
from seatrial.cli.program import command_line
from seatrial.env.eval_figures import EvalFigures, figures_of
from seatrial.env.kept_outputs import read_outputs, write_results
from seatrial.env.results import Output, Results
from seatrial.env.saving import METADATA, keep_metadata
from seatrial.errors import StoreError

INTERRUPTED = 130

_ROUNDING = 1e-9  # three times 0.7 may have a mean a hair below 0.7


@dataclass(frozen=True, slots=True)
class EvalEnding:
    """How it ended; without `results` what counts is what was kept."""

    prepared: PreparedEval
    ended: Literal["complete", "interrupted", "failed"]
    results: Results | None


def conclude(end: EvalEnding, gates: Gates) -> int:
    """Write and show what there is, and return the exit code."""
    prepared = end.prepared
    if end.ended == "failed" and _leave_nothing(prepared):
        return 1
    outputs = end.results["outputs"] if end.results else _kept(prepared)
    figures = figures_of(outputs, prepared.planned, prepared.pass_threshold, model=prepared.model.name)
    known = end.results["metadata"] if end.results else {}
    metadata = {**known, **figures_json(figures), **_metadata(end)}
    if prepared.folder is not None and prepared.folder.is_dir():
        write_results(prepared.folder, outputs)
        keep_metadata(prepared.folder, metadata)
    reasons = [*missed_gates(figures, gates)] if end.ended == "complete" else []
    code = INTERRUPTED if end.ended == "interrupted" else int(bool(reasons) or end.ended == "failed")
    if prepared.options["as_json"]:
        _tell_program(end, metadata, reasons, code)
    else:
        _tell(end, figures, reasons)
    return code


def missed_gates(figures: EvalFigures, gates: Gates) -> Iterator[str]:
    """Why an evaluation is not good enough, a line per reason."""
    if gates.fail_under is not None and figures.mean is None:
        yield f"no rollout has a reward, --fail-under wants a mean of {gates.fail_under:g}"
    elif gates.fail_under is not None and figures.mean is not None and figures.mean < gates.fail_under - _ROUNDING:
        yield f"the mean reward {figures.mean:.4g} is below --fail-under {gates.fail_under:g}"
    if figures.failed and figures.failed / figures.finished > gates.max_failed:
        yield (
            f"{figures.failed} of {figures.finished} rollouts came to nothing, more than the share --max-failed "
            f"{gates.max_failed:g}; --resume tries again what may pass"
        )
    judged = figures.scored + figures.invalid
    if figures.invalid and figures.invalid / judged > gates.max_invalid:
        yield (
            f"the verifier could not judge {figures.invalid} of {judged} rollouts, more than the share --max-invalid "
            f"{gates.max_invalid:g}"
        )


def begin_folder(prepared: PreparedEval) -> None:
    """Say in the folder of a new evaluation what it is, before the first rollout. Raises StoreError.

    A job's folder says so itself.
    """
    if prepared.folder is not None and not prepared.environment.rollouts_are_trials:
        keep_metadata(prepared.folder, _metadata(EvalEnding(prepared, "interrupted", None)))


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


def _metadata(end: EvalEnding) -> dict[str, Any]:
    from seatrial import __version__  # noqa: PLC0415 - slow, and only this needs it

    prepared = end.prepared
    return {
        **prepared.settings,
        "status": "complete" if end.ended == "complete" else "incomplete",
        "base_url": prepared.model.address,
        "num_examples": prepared.num_examples,
        "rollouts_per_example": prepared.rollouts,
        "planned": prepared.planned,
        "state_columns": list(prepared.options["state_columns"]),
        "pass_threshold": prepared.pass_threshold,
        "seatrial_version": __version__,
    }


def _tell_program(end: EvalEnding, metadata: dict[str, Any], reasons: list[str], code: int) -> None:
    from seatrial.cli.events_json import write_event  # noqa: PLC0415 - only where it is used

    folder = str(end.prepared.folder) if end.prepared.folder else None
    write_event(
        "evaluation_finished", folder=folder, ended=end.ended, exit_code=code, reasons=reasons, summary=metadata
    )


def _tell(end: EvalEnding, figures: EvalFigures, reasons: list[str]) -> None:
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
        kept = f"{figures.finished} of {figures.planned} rollouts are kept in {folder}."
        click.echo(f"{how} {kept} Continue with the same command and --resume {shlex.quote(str(folder))}", err=True)
