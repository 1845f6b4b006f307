"""The index of a job: one short line per committed trial, so that a summary need not read every record.

It is a cache. Lines are only ever appended; one that is torn, damaged or missing costs the reading of one record.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from operator import attrgetter, contains
from types import NoneType
from typing import Any, get_args

import orjson

from seatrial.model.record import Outcome, TrialRecord, VerifierRun

_OUTCOMES = frozenset(get_args(Outcome))
_MAX_FAILURE = 300


@dataclass(frozen=True, slots=True)
class TrialEntry:
    """One finished trial, as lists and summaries need it. An infrastructure failure has no reward.

    What its model used is None without a model; a cost that is not known is None too. `put_back` counts the files that
    its verifier did not meet as the agent left them. `broken` is a verifier that has no verdict on anything untouched.
    `warnings` are the codes of the record's.
    """

    trial_id: str
    task_id: str
    agent: str
    attempt: int
    outcome: Outcome
    reward: float | None
    tries: int
    duration_sec: float | None
    started_at: str | None
    failure: str | None
    model_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    disputed_reward: float | None = None
    put_back: int = 0
    broken: bool = False
    warnings: tuple[str, ...] = ()


_WITHOUT_MODEL, _UNDISPUTED, _WITHOUT_WARNINGS = 10, 14, 17
"""How many values a line has when no model was used, when the verifier met everything as the agent left it, and when
there are no warnings.
"""

_KINDS: tuple[tuple[type, ...], ...] = (
    *((str,), (str,), (str,), (int,), (str,), (float, NoneType), (int,)),
    *((float, NoneType), (str, NoneType), (str, NoneType)),
    *((int, NoneType), (int, NoneType), (int, NoneType), (float, NoneType)),
    *((float, NoneType), (int,), (bool,), (list,)),
)
_LENGTHS = (len(_KINDS), _WITHOUT_WARNINGS, _UNDISPUTED, _WITHOUT_MODEL)
_values = attrgetter(*(field.name for field in fields(TrialEntry)))


def entry_of(record: TrialRecord, agent: str) -> TrialEntry:
    """What the index keeps of a record; `agent` is what the job calls the agent."""
    started = min((time.started_at for time in record.times), default=None)
    finished = max((time.finished_at for time in record.times), default=None)
    failure, usage = record.failure, record.model_usage
    return TrialEntry(
        trial_id=record.trial_id,
        task_id=record.task.id,
        agent=agent,
        attempt=record.attempt,
        outcome=record.outcome,
        reward=record.evaluation.reward if record.evaluation else None,
        tries=record.tries,
        duration_sec=(finished - started).total_seconds() if started and finished else None,
        started_at=started.isoformat() if started else None,
        failure=f"{failure.cause}: {failure.message}"[:_MAX_FAILURE] if failure else None,
        model_calls=usage.calls if usage else None,
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cost_usd=usage.cost_usd if usage else None,
        disputed_reward=record.disputed_reward,
        put_back=sum(run.restored_count + run.hidden_count for run in _runs(record)),
        broken=any(run.baseline == "silent" for run in _runs(record)),
        warnings=tuple(warning.code for warning in record.warnings),
    )


def _runs(record: TrialRecord) -> list[VerifierRun]:
    runs = [step.verifier_run for step in record.steps] or [record.verifier_run]
    return [run for run in runs if run]


def write_line(entry: TrialEntry) -> bytes:
    """The line of an entry."""
    values = _values(entry)
    if not entry.warnings:
        values = values[:_WITHOUT_WARNINGS]
        if not entry.put_back and not entry.broken and entry.disputed_reward is None:
            values = values[: _WITHOUT_MODEL if entry.model_calls is None else _UNDISPUTED]
    return orjson.dumps(values) + b"\n"


def forget_line(trial_id: str) -> bytes:
    """A line that takes back all earlier ones about a trial, which is going to be run again."""
    return orjson.dumps([trial_id]) + b"\n"


def read_lines(content: bytes) -> dict[str, TrialEntry]:
    """The entries in an index by trial id, the last line about a trial counting. Lines that make no sense do not."""
    found: dict[str, TrialEntry] = {}
    for line in content.split(b"\n"):
        if not line:
            continue
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(values, list):
            _take(values, found)
    return found


def _take(values: list[Any], found: dict[str, TrialEntry]) -> None:
    kinds = tuple(map(type, values))
    if kinds == (str,):
        found.pop(values[0], None)
    elif len(kinds) in _LENGTHS and all(map(contains, _KINDS, kinds)) and values[4] in _OUTCOMES:
        if len(values) > _WITHOUT_WARNINGS:
            values[-1] = tuple(map(str, values[-1]))
        found[values[0]] = TrialEntry(*values)


def complete(
    found: dict[str, TrialEntry], finished: Iterable[str], read: Callable[[str], TrialEntry]
) -> list[TrialEntry]:
    """The entries of exactly the finished trials, in the order of their ids; those not found are read."""
    return [found.get(trial_id) or read(trial_id) for trial_id in sorted(finished)]
