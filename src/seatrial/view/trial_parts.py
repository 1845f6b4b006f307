"""The parts of a trial's page that come from records: outcome, evaluation, reviews, revisions, time line, neighbours,
and the commands that do it again.

What comes from files is in `trial_files`, the conversation in `conversation`.
"""

import datetime as dt
import os
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup
from pydantic import ValidationError

from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.tables import Table
from seatrial.errors import SeatrialError
from seatrial.model.base import StrictModel
from seatrial.model.evaluation import ErrorSource, EvaluationResult
from seatrial.model.job import AGENT_FILES_DIR, AgentFiles, AgentOptions
from seatrial.model.options import Option, option_words, options_of
from seatrial.model.outcome import Outcome, format_reward
from seatrial.model.record import PhaseTime, TrialRecord
from seatrial.model.review import not_taken_back
from seatrial.report import trial as told
from seatrial.report.pictures.drawing import WIDTH, Scale, element, line, picture, shortened, words
from seatrial.report.reasons import causes, failure_in_words, remarks
from seatrial.report.tables import trial_row
from seatrial.report.text import format_duration, harmless
from seatrial.report.trial import breakdown_table, revisions_table, tags_table
from seatrial.review.verdicts import ReviewState, TrialReview, review_of
from seatrial.store.drafts import RECORD
from seatrial.store.index import TrialEntry, share_of
from seatrial.trial.snapshot import ARCHIVE
from seatrial.untrusted.files import read_bounded
from seatrial.view.opened import FolderNode, OpenedTrial, tree_of

Tone = Literal["good", "mixed", "bad", "odd"]

_WORDS: dict[Outcome, tuple[str, Tone]] = {
    "pass": ("Passed", "good"),
    "partial": ("Passed in part", "mixed"),
    "fail": ("Failed", "bad"),
    "invalid_output": ("Failed: its output cannot be read", "bad"),
    "no_output": ("Failed: it left no output", "bad"),
    "verifier_error": ("Not judged: the verifier gave no verdict", "odd"),
    "infrastructure_error": ("Not judged: the machinery failed", "odd"),
    "cancelled": ("Not judged: it was cancelled", "odd"),
}

REVIEW_WORDS: dict[ReviewState, str] = {
    "open": "nobody has decided",
    "single": "one reviewer has decided",
    "agreed": "all reviewers agree",
    "needs": "reviewers disagree, and nobody has settled it",
    "adjudicated": "settled",
    "contested": "settled once, and in doubt again",
}


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """The outcome in words, and why. `reward` is a dash where nothing was judged; `notes` are what one should know
    before one believes it.
    """

    outcome: Outcome
    words: str
    tone: Tone
    reward: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DimensionBar:
    """A part of the evaluation; `share` is how much of it was reached, None where it is no score. `bar` is SVG."""

    name: str
    score: str
    evidence: str
    share: float | None
    bar: Markup


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation, of the trial or of one of its steps."""

    title: str
    validity: tuple[str, ...]
    faults: tuple[str, ...]
    dimensions: tuple[DimensionBar, ...]
    tags: Table
    confidence: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict of a reviewer, and how it came about. `is_earlier`: the trial has been judged again since."""

    row: Sequence[str]
    role: str
    is_blind: bool
    is_taken_back: bool
    is_earlier: bool


def verdict_of(trial: OpenedTrial, record: TrialRecord) -> VerdictCard:
    counted = trial.entry.outcome if trial.entry else record.outcome
    words, tone = _WORDS[counted]
    reward = format_reward(record.evaluation.reward if record.evaluation else None)
    notes = remarks(record)
    if counted != record.outcome:
        notes.append(f"counted as {counted}: the verifier of this task is broken; it said {record.outcome}")
    notes += trial.damaged_revisions()
    why = tuple(causes(record, trial.job.file.spec.model))
    return VerdictCard(counted, words, tone, "-" if tone == "odd" else reward, why, tuple(notes))


def evaluations_of(record: TrialRecord) -> list[Evaluated]:
    """The evaluation of a trial, then those of its steps."""
    own = [("", record.evaluation), *((step.name, step.evaluation) for step in record.steps)]
    return [_evaluated(title, evaluation) for title, evaluation in own if evaluation]


def _evaluated(title: str, evaluation: EvaluationResult) -> Evaluated:
    flags, *faults = told.validity_lines(evaluation)
    return Evaluated(
        title,
        tuple(flags.split(", ")),
        tuple(faults),
        tuple(_dimensions(evaluation)),
        told.tags_table(evaluation),
        told.confidence(evaluation),
    )


def _dimensions(evaluation: EvaluationResult) -> Iterator[DimensionBar]:
    shares = {harmless(name): share_of(entry) for name, entry in (evaluation.breakdown or {}).items()}
    for name, score, evidence in told.breakdown_table(evaluation).rows:
        share = shares.get(name)
        yield DimensionBar(name, score, evidence, share, Markup() if share is None else share_bar(share))


def share_bar(share: float) -> Markup:
    """A share between 0 and 1 as a bar, in SVG; the number stands beside it, so it is nothing to a screen reader."""
    whole: dict[str, str | float] = {"class": "bar-whole", "width": 100.0, "height": 8.0, "rx": 2.0}
    part: dict[str, str | float] = {"class": "bar-part", "width": 100.0 * share, "height": 8.0, "rx": 2.0}
    frame = {"class": "share", "viewBox": "0 0 100 8", "preserveAspectRatio": "none", "aria-hidden": "true"}
    drawn = element("svg", frame, element("rect", whole), element("rect", part))
    return Markup(drawn)  # noqa: S704 - our own SVG, of numbers


def review_state(trial: OpenedTrial) -> TrialReview:
    return review_of(trial.trial_id, trial.reviews)


def opinions_of(trial: OpenedTrial) -> list[Opinion]:
    """What reviewers said, in the order of the journal, with what they took back."""
    standing = {each.key for each in not_taken_back(trial.reviews)}
    newest = trial.record.revision if trial.record else 0
    said = [each for each in trial.reviews if each.annotation]
    table = told.annotations_table([each.annotation for each in said if each.annotation])
    return [
        Opinion(
            row,
            each.role,
            each.blind,
            is_taken_back=each.key not in standing,
            is_earlier=each.context is not None and each.context.revision < newest,
        )
        for each, row in zip(said, table.rows, strict=True)
    ]


# Revisions side by side, and the tries before the one that counts.

_MOST_TRIES = 50
_MOST_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class RevisionFact:
    """A row of revisions side by side: a value of each; `differs` if they are not all the same."""

    label: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True, slots=True)
class Revised:
    """The revisions of a trial: a row for each, and what each says side by side."""

    table: Table
    heads: tuple[str, ...]
    sides: tuple[RevisionFact, ...]


@dataclass(frozen=True, slots=True)
class Try:
    """A try that the machinery failed, why, and its files."""

    number: int
    told: str
    files: FolderNode


def revisions_of(trial: OpenedTrial) -> Revised | None:
    """The revisions of a trial; None where it was judged once."""
    records = [each.record for each in trial.revisions]
    if len(records) < 2:
        return None
    table = revisions_table(records, trial.job.file.seatrial_version)
    heads = tuple(f"revision {record.revision}" for record in records)
    return Revised(table, heads, tuple(_sides(records)))


def _sides(records: Sequence[TrialRecord]) -> list[RevisionFact]:
    told = [_facts(record) for record in records]
    labels = dict.fromkeys(label for facts in told for label in facts)
    return [RevisionFact(label, tuple(facts.get(label, "-") for facts in told)) for label in labels]


def _facts(record: TrialRecord) -> dict[str, str]:
    run, evaluation = record.verifier_run, record.evaluation
    facts = {"outcome": str(record.outcome), "reward": format_reward(evaluation.reward if evaluation else None)}
    if run:
        facts["verifier"] = "timed out" if run.timed_out else f"exited with {run.exit_code}"
        facts["isolation"] = run.isolation
    if evaluation:
        facts |= {name: f"{score} {evidence}".strip() for name, score, evidence in breakdown_table(evaluation).rows}
        facts["tags"] = _tags(evaluation)
    return facts


def _tags(evaluation: EvaluationResult) -> str:
    """The tags of a verdict, without those of reviewers: they stand beside the last revision, whoever judged it."""
    tags = tags_table(evaluation).rows
    named = [f"{source}:{category}" for category, source, _ in tags if source != ErrorSource.HUMAN]
    return ", ".join(named) or "-"


def tries_of(trial: OpenedTrial) -> list[Try]:
    """The tries before the one that counts, the first one first."""
    place = trial.job.path / "tries"
    try:
        names = os.listdir(place) if not place.is_symlink() else []  # noqa: PTH208 - names only
    except OSError:
        return []
    found = sorted(int(number) for name in names if (number := _number(name, trial.trial_id)))
    return [_try(trial, number) for number in found[:_MOST_TRIES]]


def _number(name: str, trial_id: str) -> str | None:
    before, _, number = name.rpartition(".")
    return number if before == trial_id and number.isascii() and number.isdecimal() and len(number) < 9 else None


def _try(trial: OpenedTrial, number: int) -> Try:
    place = Path("tries", f"{trial.trial_id}.{number}")
    files = tree_of(trial.job.path, str(place), begin=f"@try.{number}")
    try:
        content = read_bounded(place / RECORD, trial.job.path, _MOST_BYTES)
        record = TrialRecord.model_validate_json(content.head)
    except (SeatrialError, ValidationError):
        return Try(number, f"its {RECORD} cannot be read", files)
    why = failure_in_words(record.failure) if record.failure else f"ended as {record.outcome}"
    return Try(number, f"{why}, after {format_duration(_seconds(record))}", files)


def _seconds(record: TrialRecord) -> float | None:
    if not record.times:
        return None
    begun, ended = min(t.started_at for t in record.times), max(t.finished_at for t in record.times)
    return (ended - begun).total_seconds()


# The time line: a row for each phase, a bar from when it began to when it ended.

_ROW, _TOP, _LEFT, _RIGHT = 24.0, 10.0, 170.0, 90.0
_LEAST_WIDTH = 2.0
_LONGEST_LABEL = 24
MOST_ROWS = 60
"""A task of many steps has a phase of each kind for each of them; the table below the picture has all."""


def timeline(times: Sequence[PhaseTime]) -> str:
    """A picture of phases, in SVG; empty where no time is known."""
    shown = times[:MOST_ROWS]
    if not shown:
        return ""
    begun = min(time.started_at for time in shown)
    total = max(_after(begun, time.finished_at) for time in shown)
    scale = Scale(0.0, max(total, 0.001), _LEFT, WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(shown)
    parts = []
    for tick in scale.ticks():
        x = scale.place(tick)
        parts += [line(x, _TOP, x, bottom, "grid"), words(_said(tick), x, bottom + 16, "tick middle")]
    parts += [part for row, time in enumerate(shown) for part in _row(row, time, begun, scale)]
    told = "; ".join(f"{_label(time)} {format_duration(_length(time))}" for time in shown)
    return picture("phases", "What took how long", told, bottom + 24, parts)


def _row(row: int, time: PhaseTime, begun: dt.datetime, scale: Scale) -> list[str]:
    y = _TOP + _ROW * row
    start, end = scale.place(_after(begun, time.started_at)), scale.place(_after(begun, time.finished_at))
    bar: dict[str, str | float] = {
        "class": f"phase {time.phase}",
        "x": start,
        "y": y + 5,
        "width": max(_LEAST_WIDTH, end - start),
        "height": _ROW - 10,
        "rx": 2.0,
    }
    label = words(shortened(_label(time), _LONGEST_LABEL), _LEFT - 10, y + 16, "label end", _label(time))
    return [label, element("rect", bar), words(format_duration(_length(time)), WIDTH - _RIGHT + 8, y + 16, "value")]


def _label(time: PhaseTime) -> str:
    return f"{time.phase} · {harmless(time.step)}" if time.step else time.phase


def _said(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else format_duration(seconds)


def _length(time: PhaseTime) -> float:
    return _after(time.started_at, time.finished_at)


def _after(begun: dt.datetime, moment: dt.datetime) -> float:
    return (moment - begun).total_seconds()


# Neighbours: the trials before and after in the job, and all others at the same task.

MOST_ATTEMPTS = 50
"""Of one agent that are shown; a benchmark has some ten."""


@dataclass(frozen=True, slots=True)
class OtherAttempt:
    """Another trial at the same task, or this one."""

    trial_id: str
    attempt: int
    outcome: str
    reward: str
    told: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class AgentAttempts:
    """All attempts of an agent at a task; `left_out` of them are too many to be shown."""

    agent: str
    attempts: tuple[OtherAttempt, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who comes before and after a trial, `place` of `count`, and who else tried its task."""

    before: str | None
    after: str | None
    place: int
    count: int
    same_task: tuple[AgentAttempts, ...]


def neighbours_of(trial: OpenedTrial) -> Neighbours:
    """The trials around one, in the order of the job's ids."""
    ids = [each.trial_id for each in trial.job.trials]
    at = bisect_left(ids, trial.trial_id)
    counts = at < len(ids) and ids[at] == trial.trial_id
    later = at + 1 if counts else at
    return Neighbours(
        before=ids[at - 1] if at else None,
        after=ids[later] if later < len(ids) else None,
        place=at + 1,
        count=len(ids),
        same_task=_same_task(trial),
    )


def _same_task(trial: OpenedTrial) -> tuple[AgentAttempts, ...]:
    if trial.record is None:
        return ()
    task = trial.record.task.id
    found = [each for each in trial.job.trials if each.task_id == task]
    return tuple(
        _attempts(agent, [each for each in found if each.agent == agent], trial.trial_id)
        for agent in _agents(trial.job, found)
    )


def _agents(job: LoadedJob, found: list[TrialEntry]) -> list[str]:
    """In the order of the job, those that have tried the task."""
    tried = {each.agent for each in found}
    known = [agent.title for agent in job.file.spec.agents if agent.title in tried]
    return [*known, *sorted(tried - set(known))]


def _attempts(agent: str, trials: list[TrialEntry], shown: str) -> AgentAttempts:
    ordered = sorted(trials, key=lambda each: each.attempt)
    kept = [each for number, each in enumerate(ordered) if number < MOST_ATTEMPTS or each.trial_id == shown]
    made = tuple(_attempt(each, shown) for each in kept)
    return AgentAttempts(agent, made, len(ordered) - len(kept))


def _attempt(entry: TrialEntry, shown: str) -> OtherAttempt:
    name, outcome, reward, time = trial_row(entry)
    told = f"{name}: {outcome}, reward {reward}, {time}"
    is_shown = entry.trial_id == shown
    return OtherAttempt(entry.trial_id, entry.attempt, entry.outcome, format_reward(entry.reward), told, is_shown)


# Commands that show a trial, judge it again, or run it again: lines to be copied into a shell.


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command, what it does, and what it leaves out."""

    does: str
    line: str
    note: str = ""


def commands_for(trial: OpenedTrial) -> list[ShellCommand]:
    job, record = _folder(trial), trial.record
    found = [ShellCommand("Show it in a terminal", _shell_line("seatrial", "show", job, trial.trial_id))]
    if record is None:
        return found
    if record.model_usage:
        found.append(ShellCommand("Show its conversation", _shell_line("seatrial", "calls", job, trial.trial_id)))
    found += _judge_again(trial, record)
    return [*found, *_run_again(trial, record)]


def _judge_again(trial: OpenedTrial, record: TrialRecord) -> Iterator[ShellCommand]:
    states = [record.end_state, *(step.end_state for step in record.steps)]
    if not any(state and state.kept for state in states):
        return
    regrade = _shell_line("seatrial", "regrade", _folder(trial), "--trial", trial.trial_id)
    yield ShellCommand("Judge its end state again, as a new revision", regrade)
    if trial.task and (trial.folder / ARCHIVE).is_file():
        verify = _shell_line("seatrial", "verify", trial.task.root, "--state", str(trial.folder.absolute()))
        yield ShellCommand("Judge its end state by the task's tests of now, and store nothing", verify)


def _run_again(trial: OpenedTrial, record: TrialRecord) -> Iterator[ShellCommand]:
    spec, title = trial.job.file.spec, trial.entry.agent if trial.entry else record.agent.name
    agent = next((each for each in spec.agents if each.title == title), None)
    if trial.job.file.driver != "job" or agent is None or trial.task is None:
        return
    odd = [*_odd_options(spec.trial), *_odd_options(spec.model)]
    given = [word for _, option, value in odd if option for word in option_words(option, value)]
    words = ["seatrial", "run", "-p", trial.task.root, *agent_words(agent), *given]
    left_out = [name for name, option, _ in odd if option is None]
    note = f"no option for: {', '.join(left_out)}; a job file can say it" if left_out else ""
    yield ShellCommand("Run this agent at this task again, as a new job", _shell_line(*words), note)


def agent_words(agent: AgentOptions) -> Iterator[str]:
    """The words of a command line that name an agent."""
    if agent.command is not None and agent.preset is None:
        yield f"--command={agent.command}"
    else:
        yield from ("-a", f"{agent.name}@{agent.version}" if agent.version else agent.name)
    if agent.model:
        yield from ("-m", agent.model)
    said: dict[str, Any] = {
        "setup": None if agent.preset else agent.setup,
        "files": tuple(f"{each.source}{_where(each)}" for each in agent.files),
        "layer": agent.layer.source if agent.layer else None,
        "env": agent.env,
        "options": agent.options,
    }
    options = options_of(AgentOptions)
    for name, value in said.items():
        yield from option_words(options[name], value) if value else ()


def _where(files: AgentFiles) -> str:
    return "" if files.target == AGENT_FILES_DIR else f":{files.target}"


def _odd_options(table: StrictModel) -> Iterator[tuple[str, Option | None, Any]]:
    """What is not as it usually is with trials and models, each with its option where the command line has one."""
    options = options_of(type(table))
    for name, field in type(table).model_fields.items():
        if (value := getattr(table, name)) != field.get_default(call_default_factory=True):
            option = options.get(name)
            yield name, option if option and option.usage else None, value


def _folder(trial: OpenedTrial) -> str:
    return str(trial.job.path.absolute())


def _shell_line(*words: str) -> str:
    return shlex.join(words)
