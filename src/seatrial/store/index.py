"""The index of a job: one short line per committed trial, so that a summary need not read every record.

It is a cache: records count. A line stands for a record only in a job that this user made (`seal.py`), and while the
record's file is still the one that it was written about. A line that is damaged, foreign, old or missing costs the
reading of a record. What it keeps of a record is what tables need, short, and bounded in number: a record may hold
megabytes of a stranger's words.
"""

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from seatrial.model.evaluation import RUN_CATEGORIES, category_slug
from seatrial.model.job import JobFile
from seatrial.model.outcome import SCORED_OUTCOMES, Outcome
from seatrial.model.record import Phase, StepRecord, TrialRecord, outcome_of
from seatrial.store.files import write_all
from seatrial.untrusted.files import CREATE, open_file, read_file

INDEX = "index.jsonl"
_VERSION = 2
"""Of what lines say under the same names: 2 has categories as they are counted."""
_MAX_BYTES = 2**31
_MAX_FAILURE = 300

_NO_MARK = b"--------["
"""Of a task that the job does not have."""

_TRIAL, _TASK = 4, 5
"""Where the ids of trial and task are in a line; the stamp is before them."""

Stamp = list[int]
"""Inode, size, and when content and inode were last changed: no file is edited or replaced and keeps all four."""


class TrialEntry(NamedTuple):
    """One finished trial, as lists and summaries need it. An infrastructure failure has no reward.

    A tuple, because a large job has 100,000 of them and a frozen dataclass takes ten times as long to make. All of it
    is about the newest revision; what the first one amounted to is beside it.
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
    """A short digest of the tests that judged it. Trials with the same tests and setting can be compared."""
    setting: str | None = None
    """A short digest of the system, limits and network that it had."""
    agent_sec: float | None = None
    model_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None where it is not known."""
    prices: str | None = None
    """By which tables the cost was computed."""
    disputed_reward: float | None = None
    put_back: int = 0
    """How many files its verifier did not meet as the agent left them."""
    broken: bool = False
    """Whether its verifier has no verdict on anything untouched."""
    warnings: tuple[str, ...] = ()
    """The codes of the record's."""
    revision: int = 0
    first_outcome: Outcome | None = None
    first_reward: float | None = None
    first_broken: bool = False
    tags: tuple[str, ...] = ()
    """Its classified failures, `source:category`."""
    dimensions: dict[str, float] = {}  # noqa: RUF012 - a default of a tuple, which nobody writes to
    """The share, between 0 and 1, that its verifier gave for each part."""
    failed_step: str | None = None
    """The first that did not pass."""
    repeats: tuple[float, ...] = ()
    """The rewards of a verifier that was asked more than once."""
    oom_kills: int = 0
    pass_threshold: float | None = None
    """The one it was judged again with, None for that of the job."""
    unheld: tuple[str, ...] = ()
    """The names of the limits that were asked for and not enforced."""
    verifier_calls: int | None = None
    """Calls of its verifier to a model, in all verifications of this revision; None without one, as in what follows."""
    verifier_input_tokens: int | None = None
    verifier_output_tokens: int | None = None
    verifier_cost_usd: float | None = None
    verifier_prices: str | None = None


_NEEDED = len(TrialEntry._fields) - len(TrialEntry._field_defaults)
_USUAL = [TrialEntry._field_defaults.get(name) for name in TrialEntry._fields]
_TUPLES = [TrialEntry._fields.index(name) for name in ("warnings", "tags", "repeats", "unheld")]
_REPEATED = [
    TrialEntry._fields.index(name) for name in ("task_id", "agent", "outcome", "tests", "setting", "prices", "tags")
]
_make_entry = partial(tuple.__new__, TrialEntry)  # `_make` counts the values, which a whole line has all of


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file, of a link itself and not of what it leads to; None where there is nothing to be seen."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


# The lines.


class Index:
    """The index of one job. Where this user did not make the job, it has no lines and takes none.

    Each line begins with a digest of the job, the content of the trial's task, and the version and the fields of
    lines: where any of these is another, it says nothing.
    """

    def __init__(self, job: Path, file: JobFile, *, is_own: bool) -> None:
        self._path, self._is_own = job / INDEX, is_own
        of_job = crc32(orjson.dumps([file.id, file.spec.name, file.created_at, TrialEntry._fields, _VERSION]))
        self._marks = {task.id: b"%08x[" % crc32(task.digest.encode(), of_job) for task in file.tasks}

    def line(self, entry: TrialEntry, stamp: Stamp) -> bytes:
        mark = self._marks.get(entry.task_id, _NO_MARK)
        return mark + orjson.dumps([*stamp, *_without_usual(entry)])[1:] + b"\n"

    def read(self, lines: bytes, stamp: Callable[[str], Stamp | None]) -> dict[str, TrialEntry | None]:
        """What the last line about each trial says; None where that does not count.

        `stamp` gives the one that a trial's record has now.
        """
        found: dict[str, TrialEntry | None] = {}
        marks, same = self._marks, _Same()
        for line in BytesIO(lines):  # one at a time: a list of them is as large as the file once more
            try:
                values = orjson.loads(line[line.find(b"[") :])
                trial = values[_TRIAL] if len(values) > 1 else values[0]
                if not isinstance(trial, str):
                    continue
                if len(values) == 1:
                    found.pop(trial, None)
                elif line.startswith(marks.get(values[_TASK], _NO_MARK)) and values[:_TRIAL] == stamp(trial):
                    del values[:_TRIAL]
                    values += _USUAL[len(values) :]
                    for place in _TUPLES:
                        values[place] = tuple(values[place])
                    for place in _REPEATED:
                        values[place] = same[values[place]]
                    found[trial] = _make_entry(values)
                else:
                    found[trial] = None
            except (ValueError, TypeError, LookupError):
                continue
        return found

    def lines(self) -> bytes:
        """All that is written. A cache that cannot be read is not there."""
        if self._is_own:
            with suppress(OSError):
                return read_file(self._path, _MAX_BYTES)
        return b""

    def lines_from(self, start: int, limit: int) -> bytes:
        """Whole lines from a byte on, of at most so many bytes together."""
        if not self._is_own:
            return b""
        try:
            with open_file(self._path, _MAX_BYTES) as file:
                found = os.pread(file.fileno(), limit, start)
        except OSError:
            return b""
        return found[: found.rfind(b"\n") + 1]

    def append(self, lines: bytes) -> None:
        """Add lines. A disk that refuses them is no reason to say that a trial was not stored."""
        if not self._is_own:
            return
        with suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | CREATE, 0o666)
            try:
                write_all(file, lines)
            finally:
                os.close(file)


def forget_line(trial_id: str) -> bytes:
    """A line that takes back all earlier ones about a trial, which is going to be run again."""
    return orjson.dumps([trial_id]) + b"\n"


class _Same(dict[Any, Any]):
    """Gives the first of equal values, so that there is one object for what many entries have."""

    def __missing__(self, value: Any) -> Any:
        self[value] = value
        return value


def _without_usual(entry: TrialEntry) -> tuple[Any, ...]:
    """The values up to the last one that is not what it usually is: most lines need no more."""
    last = len(entry)
    while last > _NEEDED and entry[last - 1] == _USUAL[last - 1]:
        last -= 1
    return entry[:last]


# What it keeps of a record.

_DIGITS = 12
_MAX_TAGS, _MAX_DIMENSIONS, _MAX_LETTERS = 20, 40, 80


def entry_of(record: TrialRecord, agent: str) -> TrialEntry:
    """What the index keeps of a record; `agent` is what the job calls the agent."""
    started = min([time.started_at for time in record.times], default=None)
    finished = max([time.finished_at for time in record.times], default=None)
    failure, usage, judging = record.failure, record.model_usage, record.verifier_usage
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
        unheld=tuple(record.sandbox.not_held) if record.evaluation else (),  # else there may have been no sandbox
        verifier_calls=judging.calls if judging else None,
        verifier_input_tokens=judging.input_tokens if judging else None,
        verifier_output_tokens=judging.output_tokens if judging else None,
        verifier_cost_usd=judging.cost_usd if judging else None,
        verifier_prices=judging.prices if judging else None,
    )


def digest_of_tests(record: TrialRecord) -> str | None:
    """A short digest of the tests that judged a trial, of every step of it; None when none did."""
    found = [step.provenance for step in record.steps] or [record.provenance]
    digests = [each.tests_digest for each in found if each]
    if len(set(digests)) < 2:
        return digests[0][:_DIGITS] if digests else None
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:_DIGITS]


def setting_facts(record: TrialRecord) -> dict[str, Any]:
    """Under which conditions an agent worked and was judged, as far as they are not the job's options."""
    sandbox = record.sandbox
    return {
        "backend": sandbox.backend,
        "image": sandbox.image_digest or sandbox.image,
        "limits": sandbox.limits_enforced.model_dump(),
        "network": sandbox.network,
        "isolation": sorted({run.isolation for run in record.verifier_runs}),
    }


def setting_of(record: TrialRecord) -> str:
    content = orjson.dumps(setting_facts(record), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def seconds_in(record: TrialRecord, phase: Phase) -> float | None:
    """How long a phase took, in all steps; None when there was none."""
    times = [each.finished_at - each.started_at for each in record.times if each.phase == phase]
    return math.fsum(time.total_seconds() for time in times) if times else None


def tags_of(record: TrialRecord) -> tuple[str, ...]:
    """The classified failures of a trial, `source:category`, each once; the record has them as they were written."""
    tags = (record.evaluation.error_taxonomy if record.evaluation else None) or ()
    found = dict.fromkeys(f"{tag.source.value}:{_counted_as(tag.category)[:_MAX_LETTERS]}" for tag in tags)
    return tuple(found)[:_MAX_TAGS]


def _counted_as(category: str) -> str:
    """A category as it is counted. No other spelling of what only a run can know is taken for that."""
    if category in RUN_CATEGORIES:
        return category
    slug = category_slug(category)
    return f"verifier_{slug}" if slug in RUN_CATEGORIES else slug or category


def dimensions_of(record: TrialRecord) -> dict[str, float]:
    """The share that a verifier gave of what each part of its breakdown is worth."""
    parts = (record.evaluation.breakdown if record.evaluation else None) or {}
    shares = ((name[:_MAX_LETTERS], share_of(entry)) for name, entry in parts.items())
    return dict([(name, share) for name, share in shares if share is not None][:_MAX_DIMENSIONS])


def share_of(entry: Any) -> float | None:
    """How much of what a part of a breakdown is worth it was given, between 0 and 1; None for what is no score."""
    if not isinstance(entry, Mapping):
        return None
    score, most = entry.get("score"), entry.get("max_score", 1.0)
    if not _is_number(score) or not _is_number(most) or most <= 0:
        return None
    return min(1.0, max(0.0, float(score / most)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def failed_step_of(record: TrialRecord) -> str | None:
    """The first step that did not pass, None where there is none or the trial has no steps."""
    if not record.steps or record.outcome not in SCORED_OUTCOMES:
        return None
    return next((step.name[:_MAX_LETTERS] for step in record.steps if not _passed(step, record.pass_threshold)), None)


def _passed(step: StepRecord, threshold: float) -> bool:
    return step.evaluation is not None and outcome_of(step.evaluation, threshold) == "pass"


def repeats_of(record: TrialRecord) -> tuple[float, ...]:
    """All rewards of a verifier that was asked more than once about one end state; of steps none."""
    run = record.verifier_run
    rewards = [reward for reward in run.repeats if reward is not None] if run and not record.steps else []
    return tuple(rewards) if len(rewards) > 1 else ()
