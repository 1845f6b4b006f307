"""The index of a job: one short line per committed trial, so that a summary need not read every record.

It is a cache and no witness. A line speaks for a record only if this user wrote it for this job and the record's file
is still the one it was written about; any other line, and any that is torn or missing, costs the reading of a record.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from io import BytesIO
from typing import Any, NamedTuple

import orjson

from seatrial.model.job import JobFile
from seatrial.model.record import Outcome, TrialRecord
from seatrial.store.checkpoint import make_checkpoint, read_checkpoint
from seatrial.store.entry_facts import (
    digest_of_tests,
    dimensions_of,
    failed_step_of,
    repeats_of,
    seconds_in,
    setting_of,
    tags_of,
)

_MAX_FAILURE = 300
_SIGNATURE_BYTES = 16
_SIGNATURE = 2 * _SIGNATURE_BYTES  # in hexadecimal digits

_UNSIGNED = b"-" * _SIGNATURE  # to forget a line costs the reading of a record, so anybody may
_TRIAL, _TASK = 4, 5
"""Where the ids of trial and task are in a line; the stamp is before them."""

Stamp = tuple[int, ...]
"""Inode, size, and when content and inode were last changed: no file is edited or replaced and keeps all four."""

_Said = tuple[Stamp, tuple[Any, ...]]
"""What a line says: the stamp of a record's file, and the values of its entry."""

_FORGOTTEN: _Said = ((), ())


class TrialEntry(NamedTuple):
    """One finished trial, as lists and summaries need it. An infrastructure failure has no reward.

    A tuple, because a large job has 100,000 of them and a frozen dataclass takes ten times as long to make.

    What its model used is None without a model; a cost that is not known is None too, and `prices` says by which tables
    it was computed. `put_back` counts the files that
    its verifier did not meet as the agent left them. `broken` is a verifier that has no verdict on anything untouched.
    `warnings` are the codes of the record's. A trial that was judged again has the number of its newest `revision`,
    which all of this is about, and what it amounted to when it ran.

    `tests` and `setting` are short digests: of the tests that judged it, and of the system, limits and network it had;
    two trials with the same ones can be compared. `tags` are its classified failures, `source:category`; `dimensions`
    are shares between 0 and 1 of what its verifier gave for each part; `failed_step` is the first that did not pass.
    `repeats` are the rewards of a verifier that was asked more than once. `pass_threshold` is the one it was judged
    again with, None for that of the job.
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
    tests: str | None = None
    setting: str | None = None
    agent_sec: float | None = None
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
    tags: tuple[str, ...] = ()
    dimensions: dict[str, float] = {}  # noqa: RUF012 - a default of a tuple, which nobody writes to
    failed_step: str | None = None
    repeats: tuple[float, ...] = ()
    oom_kills: int = 0
    pass_threshold: float | None = None


_USUAL = [TrialEntry._field_defaults.get(name) for name in TrialEntry._fields]
_TUPLES = [TrialEntry._fields.index(name) for name in ("warnings", "tags", "repeats")]
_REPEATED = [
    TrialEntry._fields.index(name) for name in ("task_id", "agent", "outcome", "tests", "setting", "prices", "tags")
]
_make_entry = partial(tuple.__new__, TrialEntry)  # `_make` counts the values, which a signed line has all of


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file, of a link itself and not of what it leads to; None where there is nothing to be seen."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


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
        tests=digest_of_tests(record),
        setting=setting_of(record),
        agent_sec=seconds_in(record, "agent"),
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
        tags=tags_of(record),
        dimensions=dimensions_of(record),
        failed_step=failed_step_of(record),
        repeats=repeats_of(record),
        oom_kills=record.resources.oom_kills if record.resources else 0,
        pass_threshold=record.pass_threshold if record.regrade else None,
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
        self._begun: dict[str, hashlib.blake2b] = {}  # what is the same in the signatures of a task's trials
        self._known: dict[Any, Any] = {}

    def line(self, entry: TrialEntry, stamp: Stamp) -> bytes:
        """The line of a trial whose record has this stamp."""
        body = orjson.dumps([*stamp, *_without_usual(entry)])
        return self._sign(entry.task_id, body) + body + b"\n"

    def read(
        self, content: bytes, stamp: Callable[[str], Stamp | None], checkpoint: bytes = b""
    ) -> dict[str, TrialEntry | None]:
        """What the last line about each trial says; None where that is not to be believed.

        `stamp` tells the one that a trial's record has now. A `checkpoint` of the same index saves time, if it has one.
        """
        found: dict[str, TrialEntry | None] = {}
        for trial, said in self._read(content, checkpoint):
            if said is _FORGOTTEN:
                found.pop(trial, None)
            else:
                found[trial] = _make_entry(said[1]) if said and said[0] == stamp(trial) else None
        return found

    def checkpoint(self, content: bytes, last: bytes = b"") -> bytes:
        """A checkpoint of all whole lines. The `last` one may help to make it."""
        content = content[: content.rfind(b"\n") + 1]
        found = dict(self._read(content, last))
        known = sorted((trial, said) for trial, said in found.items() if said is not _FORGOTTEN)
        return make_checkpoint(self._signing_all, content, known)

    def bytes_after(self, checkpoint: bytes, content: bytes) -> int:
        """How much of an index a checkpoint does not save the reading of."""
        found = read_checkpoint(self._signing_all, checkpoint, content)
        return len(content) - (found[0] if found else 0)

    def _read(self, content: bytes, checkpoint: bytes) -> Iterator[tuple[str, _Said | None]]:
        """What the lines say of which trial, one after the other; None from those that this user did not write."""
        said: _Said | None
        added = BytesIO(content)
        if found := read_checkpoint(self._signing_all, checkpoint, content):
            added.seek(found[0])
            yield from found[1]
        for line in added:  # one at a time: a list of them is as large as the file once more
            body = line[_SIGNATURE:].rstrip(b"\n")
            try:
                values = orjson.loads(body)
                if len(values) == 1:
                    trial, said = values[0], _FORGOTTEN
                else:
                    trial = values[_TRIAL]
                    is_ours = line.startswith(self._sign(values[_TASK], body))
                    said = self._values(values) if is_ours else None
            except (orjson.JSONDecodeError, TypeError, LookupError):
                continue
            if isinstance(trial, str):
                yield trial, said

    @cached_property
    def _signing_all(self) -> "hashlib.blake2b":
        """For what is about trials of all tasks, whatever these contain."""
        signing = self._signing.copy()
        signing.update(orjson.dumps([(task, digest.decode()) for task, digest in self._digests.items()]))
        return signing

    def _values(self, values: list[Any]) -> _Said:
        """What a line says: tuples for the lists of JSON, and one object for what many entries have."""
        stamp, values = tuple(values[:_TRIAL]), values[_TRIAL:]
        values += _USUAL[len(values) :]
        for place in _TUPLES:
            values[place] = tuple(values[place])
        known = self._known
        for place in _REPEATED:
            value = values[place]
            values[place] = known.setdefault(value, value)
        return stamp, tuple(values)

    def _sign(self, task_id: str, body: bytes) -> bytes:
        begun = self._begun.get(task_id)
        if begun is None:
            begun = self._begun[task_id] = self._signing.copy()
            begun.update(self._digests.get(task_id, b""))
        signing = begun.copy()
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
