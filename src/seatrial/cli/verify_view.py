"""What a verifier said to one end state, on the screen or as JSON: the verdict that counts, and how others differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from seatrial.check.one_state import StateVerdict
from seatrial.cli.colours import paint, paint_outcome
from seatrial.cli.render import show_table
from seatrial.cli.trial_view import read_tail
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.record import outcome_of
from seatrial.report import trial as told
from seatrial.report.text import format_duration, format_reward, harmless
from seatrial.scoring.repeats import compare_verdicts, lowest, tell_rewards, with_repeats

_STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class StateRun:
    """One run of the verifier, and the folder with what it printed and wrote."""

    verdict: StateVerdict
    folder: Path

    @property
    def reward(self) -> float | None:
        """The reward; None for a run without a verdict."""
        evaluation = self.verdict.evaluation
        return evaluation.reward if evaluation.validity.verifier_completed else None

    def tail(self, stream: str) -> list[str]:
        """The last lines of what it printed."""
        return read_tail(self.folder / f"{stream}.txt", self.folder)


def _settled(runs: Sequence[StateRun]) -> tuple[StateRun, EvaluationResult]:
    """The run that counts, and its evaluation with what the others say."""
    run = runs[lowest([each.reward for each in runs])]
    if len(runs) == 1:
        return run, run.verdict.evaluation
    evaluations = [each.verdict.evaluation for each in runs]
    return run, with_repeats(run.verdict.evaluation, compare_verdicts(evaluations, "fresh"))


def show_runs(runs: Sequence[StateRun], pass_threshold: float) -> None:
    """Everything an author wants to know, the verdict first."""
    run, evaluation = _settled(runs)
    outcome = outcome_of(evaluation, pass_threshold)
    _fact("reward", f"{format_reward(evaluation.reward)}  ({paint_outcome(outcome)})")
    if len(runs) > 1:
        _fact("repeats", f"{tell_rewards([each.reward for each in runs])}; the lowest counts")
    for line in told.validity_lines(evaluation):
        _fact("validity", line)
    if sure := told.confidence(evaluation):
        _fact("confidence", sure)
    if rows := told.breakdown_rows(evaluation):
        show_table("breakdown", told.BREAKDOWN_COLUMNS, rows)
    if evaluation.error_taxonomy:
        show_table("error tags", told.TAG_COLUMNS, told.tag_rows(evaluation))
    _show_end(run)


def _show_end(run: StateRun) -> None:
    """How the verifier ended, and the last that it printed."""
    ended = run.verdict.run
    end = "timed out" if ended.timed_out else f"exited with {ended.exit_code}"
    _fact("verifier", f"{end} after {format_duration(ended.duration_sec)}")
    for stream in _STREAMS:
        if lines := run.tail(stream):
            click.echo(paint(f"--- {stream}", bold=True))
            click.echo("\n".join(map(harmless, lines)))


def _fact(label: str, value: str) -> None:
    click.echo(f"{paint(f'{label:<12}', bold=True)}{value}")


def show_runs_as_json(runs: Sequence[StateRun], pass_threshold: float) -> None:
    """The same for programs."""
    run, evaluation = _settled(runs)
    document = {
        "reward": evaluation.reward if run.reward is not None else None,
        "outcome": outcome_of(evaluation, pass_threshold),
        "rewards": [each.reward for each in runs],
        "evaluation": evaluation.model_dump(mode="json"),
        "runs": [_described(each) for each in runs],
    }
    click.echo(json.dumps(document, indent=2))


def _described(run: StateRun) -> dict[str, Any]:
    ended = run.verdict.run
    kept = {"exit_code": ended.exit_code, "timed_out": ended.timed_out, "duration_sec": ended.duration_sec}
    return {"reward": run.reward, **kept, **{stream: run.tail(stream) for stream in _STREAMS}}
