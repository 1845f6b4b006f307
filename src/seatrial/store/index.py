"""The index of a job: one short line per committed trial, so that a summary need not read every record.

It is a cache and no witness. A line speaks for a record only if this user wrote it for this job and the record's file
is still the one it was written about; any other line, and any that is torn or missing, costs the reading of a record.
"""

import hashlib
import os
from typing import Any, NamedTuple

import orjson

from seatrial.model.job import JobFile
from seatrial.model.record import Outcome, TrialRecord

_MAX_FAILURE = 300
_SIGNATURE_BYTES = 16
_SIGNATURE = 2 * _SIGNATURE_BYTES  # in hexadecimal digits

_UNSIGNED = b"-" * _SIGNATURE  # to forget a line costs the reading of a record, so anybody may
_TRIAL, _TASK = 4, 5
"""Where the ids of trial and task are in a line; the stamp is before them."""

Stamp = list[int]
"""Inode, size, and when content and inode were last changed: no file is edited or replaced and keeps all four."""


class TrialEntry(NamedTuple):
    """One finished trial, as lists and summaries need it. An infrastructure failure has no reward.

    A tuple, because a large job has 100,000 of them and a frozen dataclass takes ten times as long to make.

    What its model used is None without a model; a cost that is not known is None too, and `prices` says by which tables
    it was computed. `put_back` counts the files that
    its verifier did not meet as the agent left them. `broken` is a verifier that has no verdict on anything untouched.
    `warnings` are the codes of the record's. A trial that was judged again has the number of its newest `revision`,
    which all of this is about, and what it amounted to when it ran.
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
    prices: str | None = None
    disputed_reward: float | None = None
    put_back: int = 0
    broken: bool = False
    warnings: tuple[str, ...] = ()
    revision: int = 0
    first_outcome: Outcome | None = None
    first_reward: float | None = None
    first_broken: bool = False


IndexLine = tuple[bytes, list[Any]]
"""A line as it was found, and its values: those of the stamp, then those of the entry."""


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file, of a link itself and not of what it leads to; None where there is nothing to be seen."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def entry_of(record: TrialRecord, agent: str) -> TrialEntry:
    """What the index keeps of a record; `agent` is what the job calls the agent."""
    started = min((time.started_at for time in record.times), default=None)
    finished = max((time.finished_at for time in record.times), default=None)
    failure, usage = record.failure, record.model_usage
    first = record.regrade.first if record.regrade else None
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
        prices=usage.prices if usage else None,
        disputed_reward=record.disputed_reward,
        put_back=sum(run.restored_count + run.hidden_count for run in record.verifier_runs),
        broken=record.has_broken_verifier,
        warnings=tuple(warning.code for warning in record.warnings),
        revision=record.revision,
        first_outcome=first.outcome if first else None,
        first_reward=first.reward if first else None,
        first_broken=first.broken_verifier if first else False,
    )


def forget_line(trial_id: str) -> bytes:
    """A line that takes back all earlier ones about a trial, which is going to be run again."""
    return _UNSIGNED + orjson.dumps([trial_id]) + b"\n"


class Index:
    """Writes and reads the lines of one job. Each is signed with a key that only this user has.

    The signature covers the job, the content of the trial's task and the fields that lines of this version have: where
    any of these is another, a line says nothing.
    """

    def __init__(self, file: JobFile, key: bytes) -> None:
        meant = [file.id, file.spec.name, file.created_at, TrialEntry._fields]
        self._signing = hashlib.blake2b(orjson.dumps(meant), key=key, digest_size=_SIGNATURE_BYTES)
        self._digests = {task.id: task.digest.encode() for task in file.tasks}

    def line(self, entry: TrialEntry, stamp: Stamp) -> bytes:
        """The line of a trial whose record has this stamp."""
        body = orjson.dumps([*stamp, *_without_usual(entry)])
        return self._sign(entry.task_id, body) + body + b"\n"

    def read(self, content: bytes) -> dict[str, IndexLine]:
        """What is written about each trial, the last line about it counting; whether it is true, `believed` tells."""
        found: dict[str, IndexLine] = {}
        for line in content.split(b"\n"):
            try:
                values = orjson.loads(line[_SIGNATURE:])
                if len(values) == 1:
                    found.pop(values[0], None)
                else:
                    found[values[_TRIAL]] = (line, values)
            except (orjson.JSONDecodeError, TypeError, LookupError):
                continue
        return found

    def believed(self, written: IndexLine, stamp: Stamp | None) -> TrialEntry | None:
        """The entry of a line that is of this user and this job, and of a record with this stamp; else None."""
        line, values = written
        task = values[_TASK] if len(values) > _TASK else None
        if values[:_TRIAL] != stamp or not isinstance(task, str):
            return None
        if not line.startswith(self._sign(task, line[_SIGNATURE:])):
            return None
        entry = TrialEntry(*values[_TRIAL:])
        return entry if entry.warnings == () else entry._replace(warnings=tuple(entry.warnings))

    def _sign(self, task_id: str, body: bytes) -> bytes:
        signing = self._signing.copy()
        signing.update(self._digests.get(task_id, b""))
        signing.update(body)
        return signing.hexdigest().encode()


def _without_usual(entry: TrialEntry) -> tuple[Any, ...]:
    """The values up to the last one that is not what it usually is: most lines need no more."""
    last = len(entry)
    for name in reversed(TrialEntry._field_defaults):
        if getattr(entry, name) != TrialEntry._field_defaults[name]:
            break
        last -= 1
    return entry[:last]
