"""Carrying out an evaluation while it is watched: what is done is kept and told of, however it ends."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seatrial.cli.eval_ending import EvalEnding, conclude
from seatrial.cli.eval_prepared import PreparedEval
from seatrial.cli.gates import Gates
from seatrial.cli.long_run import cancelled_by_signals
from seatrial.cli.progress import Beginning, Display
from seatrial.env.module_errors import module_error
from seatrial.env.results import Output, Results
from seatrial.errors import SeatrialError
from seatrial.model.outcome import Outcome
from seatrial.report.text import counted
from seatrial.trial.events import Notice, RolloutFinished

_TOLD_ANYWAY = "seatrial.env.run_row"  # a rollout that came to nothing has a line of its own


def carry_out_eval(prepared: PreparedEval, display: Display, gates: Gates) -> int:
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
        return conclude(EvalEnding(prepared, "interrupted", None), gates)
    except SeatrialError:
        conclude(EvalEnding(prepared, "failed", None), gates)
        raise
    return conclude(EvalEnding(prepared, "complete", results), gates)


def _beginning(prepared: PreparedEval) -> Beginning:
    name = prepared.environment.env_id
    return Beginning(name, prepared.folder or Path(name), prepared.planned, unit="rollout")


async def _evaluate(prepared: PreparedEval, display: Display) -> Results:
    environment, seen = prepared.environment, OutputTeller(prepared, display)
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


def _arguments(prepared: PreparedEval, seen: "OutputTeller") -> dict[str, Any]:
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


class OutputTeller:
    """Tells a display of the outputs that have come, in the way environments tell of them."""

    def __init__(self, prepared: PreparedEval, display: Display) -> None:
        self._prepared = prepared
        self._display = display
        self._rollouts: Counter[str] = Counter()

    def __call__(self, outputs: Sequence[Output], new: Sequence[Output], metadata: Any = None) -> None:
        """Tell of the new ones."""
        for output in new:
            self._display.observe(self._event(output))

    def _event(self, output: Output) -> RolloutFinished:
        is_trial = self._prepared.environment.rollouts_are_trials
        example = str(output["task"] if is_trial else f"example {output['example_id']}")
        self._rollouts[example] += 1
        error, timing = output["error"] or {}, output["timing"]
        milliseconds = timing.get("total_ms") if isinstance(timing, Mapping) else None
        return RolloutFinished(
            rollout_id=f"{example}.{self._rollouts[example]}",
            agent=self._prepared.model.name,
            outcome=outcome_of_output(output, self._prepared.pass_threshold),
            reward=output["reward"],
            seconds=milliseconds / 1000 if isinstance(milliseconds, int | float) else None,
            reason=str(error.get("message", "")),
        )


def outcome_of_output(output: Output, pass_threshold: float) -> Outcome | None:
    """What a rollout amounts to: what its trial says, else what its reward says; None for one that nothing judged."""
    if output.get("outcome"):
        outcome: Outcome = output["outcome"]
        return outcome
    if output["error"] is not None:
        return "infrastructure_error"
    reward = output["reward"]
    if reward is None:
        return None
    return "pass" if reward >= pass_threshold else "partial" if reward > 0 else "fail"


class _ToDisplay(logging.Handler):
    """Lets a display say what the library warns of."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != _TOLD_ANYWAY:
            self._loop.call_soon_threadsafe(self._display.observe, Notice(record.getMessage()))


@contextmanager
def _log_to(display: Display) -> Iterator[None]:
    log, handler = logging.getLogger("seatrial"), _ToDisplay(display)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
