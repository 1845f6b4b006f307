"""Trials in the Common Test Report Format: one JSON document, a test for each trial, the agent as its suite.

Written for version 0.0.0 of its specification, in which nothing may be beside the fields it names but in `extra`.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal

import orjson

from seatrial.analysis.arms import Arm
from seatrial.analysis.columns import in_order
from seatrial.analysis.open_trials import open_trials
from seatrial.analysis.tally import tally_json
from seatrial.model.outcome import Outcome
from seatrial.report.formats.case_words import case_message
from seatrial.report.formats.clean_text import utf8_text, utf8_value
from seatrial.store.index import TrialEntry

_SPEC_VERSION = "0.0.0"
CtrfStatus = Literal["passed", "failed", "skipped", "pending", "other"]
_STATUSES: tuple[CtrfStatus, ...] = ("passed", "failed", "skipped", "pending", "other")
_STATUS: Mapping[Outcome, CtrfStatus] = {
    "pass": "passed",
    "partial": "failed",
    "fail": "failed",
    "no_output": "failed",
    "invalid_output": "failed",
    "infrastructure_error": "other",
    "verifier_error": "other",
    "cancelled": "skipped",
}


def write_ctrf(arms: Sequence[Arm], out: BinaryIO, version: str) -> None:
    """Write the document; `version` is that of this program."""
    tests = [(arm, trial) for arm in arms for trial in [*in_order(arm.trials), *in_order(open_trials(arm))]]
    head = {"reportFormat": "CTRF", "specVersion": _SPEC_VERSION, "generatedBy": f"seatrial {version}"}
    out.write(orjson.dumps(head)[:-1] + b',"results":{"tool":')
    out.write(orjson.dumps({"name": "seatrial", "version": version}))
    out.write(b',"summary":' + orjson.dumps(_summary(arms, [trial for _, trial in tests])) + b',"tests":[')
    lines = (orjson.dumps(_test(arm, trial)) for arm, trial in tests)
    out.writelines(b",\n" + line if number else b"\n" + line for number, line in enumerate(lines))
    out.write(b"\n]}}\n")


def _status(trial: TrialEntry) -> CtrfStatus:
    return "pending" if not trial.tries else _STATUS[trial.outcome]


def _summary(arms: Sequence[Arm], trials: Sequence[TrialEntry]) -> dict[str, Any]:
    counts = Counter(map(_status, trials))
    times = [time for trial in trials if (time := _times(trial))]
    start, stop = min((time[0] for time in times), default=0), max((time[1] for time in times), default=0)
    return {
        "tests": len(trials),
        **{status: counts[status] for status in _STATUSES},
        "suites": len(arms),
        "start": start,
        "stop": stop,
        "duration": stop - start,
        "extra": {"agents": [{"agent": utf8_text(arm.label), **utf8_value(tally_json(arm.tally))} for arm in arms]},
    }


def _test(arm: Arm, trial: TrialEntry) -> dict[str, Any]:
    times = _times(trial)
    message = case_message(trial, arm.job.threshold_of(trial))
    found = {
        "name": utf8_text(trial.trial_id),
        "status": _status(trial),
        "duration": round(1000 * (trial.duration_sec or 0.0)),
        **({"start": times[0], "stop": times[1]} if times else {}),
        "suite": [utf8_text(arm.label), utf8_text(trial.task_id)],
        **({"message": utf8_text(message)} if message else {}),
        **({"rawStatus": trial.outcome, "retries": trial.tries - 1} if trial.tries else {}),
        "tags": utf8_value(trial.tags),
    }
    return {**found, "extra": _extra(trial)}


def _extra(trial: TrialEntry) -> dict[str, Any]:
    is_judged = trial.outcome not in ("verifier_error", "infrastructure_error", "cancelled")
    return {
        "attempt": trial.attempt,
        "reward": trial.reward if is_judged else None,
        "disputed_reward": trial.disputed_reward,
        "dimensions": utf8_value(trial.dimensions),
        "input_tokens": trial.input_tokens,
        "output_tokens": trial.output_tokens,
        "cost_usd": trial.cost_usd,
    }


def _times(trial: TrialEntry) -> tuple[int, int] | None:
    """When a trial began and ended, in milliseconds since 1970; None where that is not known."""
    if trial.started_at is None:
        return None
    start = round(1000 * dt.datetime.fromisoformat(trial.started_at).timestamp())
    return start, start + round(1000 * (trial.duration_sec or 0.0))
