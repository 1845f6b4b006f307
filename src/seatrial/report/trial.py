"""One trial, told: what it amounts to, whether that can be believed, and what it rests on. Values in, words out."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from seatrial.analysis.tables import Row, Table
from seatrial.model.evaluation import Annotation, EvaluationResult
from seatrial.model.outcome import PASS_THRESHOLD, format_mean, format_reward
from seatrial.model.record import (
    AgentRef,
    FileChanges,
    ImportedFrom,
    ModelUsage,
    PhaseTime,
    StepRecord,
    TrialRecord,
    VerifierRun,
    outcome_of,
)
from seatrial.report.reasons import failure_in_words
from seatrial.report.text import cache_use, counted, format_cost, format_duration, harmless
from seatrial.scoring.repeats import tell_rewards

Fact = tuple[str, str]

_APPEALS = {
    "as_left": "on the system as the agent left it",
    "withheld": "without files of the agent that may have steered the verifier",
}
_BASELINES = {
    "judged": "the verifier gives a verdict where no agent has been, so this agent silenced it",
    "silent": "the verifier gives no verdict even where no agent has been, so it is broken",
}
_FIRST_FILES = 10
_LONGEST_COMMAND = 120
_TOLD_AS_TAGS = "error_taxonomy"
_MEGA = 2**20


def headline(record: TrialRecord) -> list[Fact]:
    """Which trial it was and what it amounts to."""
    facts = [
        ("trial", record.trial_id),
        ("task", record.task.id),
        ("agent", _agent(record.agent)),
        ("attempt", f"{record.attempt}, after {record.tries} tries" if record.tries > 1 else str(record.attempt)),
        ("outcome", record.outcome),
        ("reward", _reward(record)),
    ]
    if record.failure:
        facts.append(("failure", failure_in_words(record.failure)))
    facts += [("warning", f"{warning.code}: {warning.message}") for warning in record.warnings]
    return [(label, harmless(value)) for label, value in facts]


def _agent(agent: AgentRef) -> str:
    name = f"{agent.name} {agent.version}" if agent.version else agent.name
    return " · ".join(filter(None, (name, agent.model, _command(agent.command))))


def _command(command: str | None) -> str | None:
    """A command on one line; of a long one, the beginning."""
    line = " ".join((command or "").split())
    return line if len(line) <= _LONGEST_COMMAND else f"{line[:_LONGEST_COMMAND]}…"


def _reward(record: TrialRecord) -> str:
    if record.evaluation is None:
        return "none: the trial was never judged"
    if record.outcome == "verifier_error":
        return f"{format_reward(record.evaluation.reward)}, not counted: the verifier could not judge"
    threshold = (
        f" (passes from {format_reward(record.pass_threshold)})" if record.pass_threshold != PASS_THRESHOLD else ""
    )
    if record.disputed_reward is not None:
        threshold += f", disputed: {format_reward(record.disputed_reward)} on the system as the agent left it"
    return format_reward(record.evaluation.reward) + threshold


def validity_lines(evaluation: EvaluationResult) -> list[str]:
    """The three flags, then one line per thing that was noticed."""
    flags = ("output_parseable", "schema_valid", "verifier_completed")
    said = (f"{flag}: {'yes' if getattr(evaluation.validity, flag) else 'no'}" for flag in flags)
    return [", ".join(said), *(harmless(error) for error in evaluation.validity.errors)]


def breakdown_table(evaluation: EvaluationResult) -> Table:
    """One row per dimension the verifier named; its error tags and its confidence are told by themselves."""
    found = evaluation.breakdown or {}
    told = {_TOLD_AS_TAGS, *(["confidence"] if evaluation.confidence else [])}
    rows = [_dimension(name, entry) for name, entry in found.items() if name not in told]
    return Table(("dimension", "score", "evidence"), rows)


def confidence(evaluation: EvaluationResult) -> str:
    """How sure one may be of the reward, as far as somebody said; empty when nobody did."""
    known = evaluation.confidence.model_dump(exclude_none=True) if evaluation.confidence else {}
    claimed = known.pop("claimed", {})
    told = _named_values(known)
    return f"{told}; the verifier claims {_named_values(claimed)}" if claimed else told


def _named_values(values: dict[str, Any]) -> str:
    return ", ".join(f"{harmless(name.replace('_', ' '))} {_number(value)}" for name, value in values.items())


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_number, value))
    return harmless(format_mean(value, ".4g") if isinstance(value, float) else str(value))


def _dimension(name: str, entry: Any) -> Row:
    if not isinstance(entry, dict) or "score" not in entry:
        return harmless(name), "", harmless(str(entry))
    score = f"{entry['score']} / {entry.get('max_score', 1.0)}"
    return harmless(name), harmless(score), harmless(str(entry.get("evidence", "")))


def tags_table(evaluation: EvaluationResult) -> Table:
    """One row per classified failure."""
    tags = evaluation.error_taxonomy or []
    rows = [(harmless(tag.category), tag.source.value, harmless(tag.description or "")) for tag in tags]
    return Table(("category", "source", "description"), rows)


def evidence(record: TrialRecord, changes: FileChanges | None) -> list[Fact]:
    """What speaks for the reward: how the judge was kept apart, what outlived the agent, what it changed."""
    runs = [("", record.verifier_run), *((f"{step.name}: ", step.verifier_run) for step in record.steps)]
    facts = [fact for prefix, run in runs if run for fact in _verifier_facts(prefix, run)]
    if record.agent_result:
        result = record.agent_result
        code = "" if result.exit_code is None else f" with {result.exit_code}"
        facts.insert(0, ("agent", f"{result.status}{code} after {format_duration(result.duration_sec)}"))
    if record.changes:
        counts = record.changes
        facts.append(("changes", f"{counts.added} added, {counts.modified} modified, {counts.removed} removed"))
    facts += _changed_files(changes) if changes else []
    if record.provenance and record.provenance.reward_file:
        facts.append(("reward from", f"{record.provenance.reward_file}, tests {record.provenance.tests_digest[:12]}"))
    return [(harmless(label), harmless(value)) for label, value in facts]


_SYSTEMS = {
    "as_left": "as the agent left it, because the task or the run says so",
    "reference": "as the agent left it where the task's own solution changes it, too; else the image's",
}
_SOLUTIONS = "as it was left, because it is the task's own solution"


def _verifier_facts(prefix: str, run: VerifierRun) -> Iterator[Fact]:
    end = "timed out" if run.timed_out else f"exited with {run.exit_code}"
    cut = ", its output was cut" if run.truncated else ""
    yield "verifier", f"{prefix}{end} after {format_duration(run.duration_sec)}{cut}"
    yield "isolation", f"{prefix}{run.isolation}{', with a system of its own' if run.shielded else ''}"
    if run.repeats:
        where = "a fresh sandbox each" if run.repeated_in == "fresh" else "the same sandbox"
        yield "repeats", f"{prefix}{tell_rewards(run.repeats)}, in {where}; the lowest counts"
    if run.models:
        asked = (name if name == other else f"{other} (asked for as {name})" for name, other in run.models.items())
        yield "asked", prefix + ", ".join(asked)
    if run.baseline:
        yield "baseline", prefix + _BASELINES[run.baseline]
    if run.survivors:
        yield "survivors", prefix + _some(run.survivors)
    yield from _system_facts(prefix, run)


def _system_facts(prefix: str, run: VerifierRun) -> Iterator[Fact]:
    if run.trust != "image":
        yield "system", prefix + (_SOLUTIONS if run.needs_system else _SYSTEMS[run.trust])
    if run.reference_units:
        yield "unlike the solution's", prefix + _some(run.reference_units)
    if run.restored:
        yield "put back", prefix + _some(run.restored, run.restored_count)
    if run.hidden:
        yield "hidden", prefix + _some(run.hidden, run.hidden_count)
    yield from _reads(prefix, run)


def _reads(prefix: str, run: VerifierRun) -> Iterator[Fact]:
    """What the verifier read of the agent's files, and what it gave when it was asked again."""
    if run.appeal:
        said = "no verdict" if run.appeal.reward is None else format_reward(run.appeal.reward)
        yield "asked again", f"{prefix}{said} {_APPEALS[run.appeal.on]}"
    if run.agent_files_used:
        yield "read", prefix + _some(run.agent_files_used, run.agent_files_used_count)
    if run.reads in ("partly", "unwatched"):
        yield "reads", f"{prefix}{run.reads}: the verifier may have read other files of the agent"


def _changed_files(changes: FileChanges) -> Iterator[Fact]:
    for kind in ("added", "modified", "removed"):
        if files := getattr(changes, kind):
            yield kind, _some(files)


def _some(names: Sequence[str], total: int = 0) -> str:
    count = max(total, len(names))
    rest = f" and {count - _FIRST_FILES} more" if count > _FIRST_FILES else ""
    return ", ".join(names[:_FIRST_FILES]) + rest


def machine(record: TrialRecord) -> list[Fact]:
    """Where the trial ran and what it used there."""
    sandbox = record.sandbox
    facts = [("sandbox", f"{sandbox.backend}, image {sandbox.image}, network {sandbox.network}")]
    if record.imported:
        facts = [("imported", _origin(record.imported))]
    if limits := _limits(sandbox.limits_enforced.model_dump(exclude_none=True)):
        facts.append(("limits", limits))
    if missing := sandbox.not_held:
        facts.append(("not held", _limits(missing)))
    if record.resources:
        facts.append(("used", _used(record)))
    if usage := record.model_usage:
        facts.append(("model", model_usage(usage)))
        if usage.omitted:
            facts.append(("left out", f"{', '.join(usage.omitted)} (the model's dialect has no place for it)"))
    if record.verifier_usage:
        facts.append(("grading", model_usage(record.verifier_usage)))
    return [(label, harmless(value)) for label, value in facts]


def _origin(imported: ImportedFrom) -> str:
    version = f" {imported.version}" if imported.version else ""
    line = f" line {imported.line}" if imported.line else ""
    return f"from {imported.format}{version}, {imported.file}{line}, sha256 {imported.sha256[:12]}"


def model_usage(usage: ModelUsage) -> str:
    """What a model was asked for and what that cost."""
    cost = "cost not known" if usage.cost_usd is None else format_cost(usage.cost_usd)
    if usage.prices:
        cost += f" by the prices of {usage.prices}"
    cache = cache_use(usage.cached_tokens, usage.cache_write_tokens)
    tokens = f"{usage.input_tokens:,} tokens in{cache}, {usage.output_tokens:,} out"
    if usage.calls is None:
        return f"{tokens}, {cost}"
    return f"{counted(usage.calls, 'call')}, {tokens}, {cost}" if usage.calls else "no calls"


def _limits(limits: Mapping[str, float | str]) -> str:
    named = {name: value if isinstance(value, str) else f"{value:g}" for name, value in limits.items()}
    return ", ".join(f"{name} {value}" for name, value in named.items())


def _used(record: TrialRecord) -> str:
    use = record.resources
    assert use is not None  # noqa: S101 - the caller has looked
    parts = []
    if use.cpu_sec is not None:
        parts.append(f"{use.cpu_sec:.2f} s CPU")
    if use.peak_memory_bytes is not None:
        parts.append(f"{use.peak_memory_bytes / _MEGA:.1f} MiB memory at the peak")
    if use.disk_bytes is not None:
        parts.append(f"{use.disk_bytes / _MEGA:.1f} MiB disk")
    if use.oom_kills:
        parts.append(f"{counted(use.oom_kills, 'process', 'processes')} killed for lack of memory")
    return ", ".join(parts) or "not measured"


def phases_table(record: TrialRecord) -> Table:
    """One row per phase, in the order they ran."""
    return Table(("phase", "step", "time", "started"), [*map(_phase, record.times)])


def _phase(time: PhaseTime) -> Row:
    length = format_duration((time.finished_at - time.started_at).total_seconds())
    return time.phase, harmless(time.step or ""), length, _moment(time.started_at)


def steps_table(record: TrialRecord) -> Table:
    """One row per step of a multi-step task, as far as it went."""
    rows = [_step(step, record.pass_threshold) for step in record.steps]
    return Table(("step", "agent", "verifier", "outcome", "reward"), rows)


def _step(step: StepRecord, threshold: float) -> Row:
    agent = step.agent_result.status if step.agent_result else "-"
    verifier = "-" if step.verifier_run is None else f"exit {step.verifier_run.exit_code}"
    if step.evaluation is None:
        return harmless(step.name), agent, verifier, "not judged", "-"
    outcome = outcome_of(step.evaluation, threshold, step.verifier_run.baseline if step.verifier_run else None)
    return harmless(step.name), agent, verifier, outcome, format_reward(step.evaluation.reward)


def annotations_table(annotations: Sequence[Annotation]) -> Table:
    """One row per verdict, oldest first."""
    rows = [
        (
            harmless(" · ".join(part for part in (said.reviewer_id, said.reviewer_discipline) if part)),
            said.judgment.value,
            harmless(", ".join(said.categories)),
            harmless(said.notes or ""),
            _moment(said.timestamp),
        )
        for said in annotations
    ]
    return Table(("reviewer", "judgment", "categories", "notes", "when"), rows)


def _moment(when: dt.datetime) -> str:
    return when.isoformat(sep=" ", timespec="seconds")


# The revisions of a trial, told: what each of them gave, and why it is not what the one before gave.


_SHORT = 12


def revisions_table(records: Sequence[TrialRecord], version: str) -> Table:
    """One row for each revision of a trial, the first one first; none where there is only that.

    `version` is that of the Seatrial that made the job.
    """
    told = ["as it ran", *(compare(old, new, version) for old, new in pairwise(records))]
    rows = [
        (str(record.revision), record.outcome, _rewards(record), _tests(record), _when(record), harmless(words))
        for record, words in zip(records, told, strict=True)
    ]
    columns = ("revision", "outcome", "reward", "tests", "when", "beside the one before")
    return Table(columns, rows if len(rows) > 1 else [])


def compare(before: TrialRecord, after: TrialRecord, version: str) -> str:
    """Whether two verdicts on one end state are the same, and all that may be the reason if they are not."""
    same = (before.outcome, _reward_of_revision(before)) == (after.outcome, _reward_of_revision(after))
    reasons = list(_differences(before, after, version))
    if same:
        return f"the same verdict, by {'; '.join(reasons)}" if reasons else "the same verdict"
    if reasons:
        return f"another verdict, by {'; '.join(reasons)}"
    return "another verdict by the same tests, options and Seatrial: the verifier goes by more than what the agent left"


def _differences(before: TrialRecord, after: TrialRecord, version: str) -> Iterator[str]:
    if before.failure:
        yield f"a verifier that could not be run before ({before.failure.message})"
        return
    if _digests(before) != _digests(after):
        source = f" from {after.regrade.tests}" if after.regrade and after.regrade.tests else ""
        yield f"other tests{source}"
    elif _task(before) != _task(after):
        yield "other files of the task, though the same tests"
    then, now = _version(before, version), _version(after, version)
    if then != now:
        yield f"Seatrial {now} and not {then}"
    for name, was, value in _changed_options(before, after):
        yield f"the option {name} {value} and not {was}"
    yield from _about_the_verifier(before, after)


def _about_the_verifier(before: TrialRecord, after: TrialRecord) -> Iterator[str]:
    spoke, speaks = _completed(before), _completed(after)
    if spoke and not speaks:
        yield "a verifier that gave no verdict this time"
    elif speaks and not spoke:
        yield "a verifier that gave no verdict before"
    for run in after.verifier_runs:
        if len(set(run.repeats)) > 1:
            yield f"a verifier that gave different rewards in {counted(len(run.repeats), 'run')} of it"


def _changed_options(before: TrialRecord, after: TrialRecord) -> Iterator[tuple[str, str, str]]:
    was = before.regrade.options if before.regrade else {}
    now = after.regrade.options if after.regrade else {}
    for name in sorted({*was, *now}):
        if was.get(name) != now.get(name):
            yield name, str(was.get(name, "as the job has it")), str(now.get(name, "as the job has it"))


def _digests(record: TrialRecord) -> list[str]:
    found = [step.provenance for step in record.steps] or [record.provenance]
    return [provenance.tests_digest for provenance in found if provenance]


def _task(record: TrialRecord) -> str:
    return record.regrade.task_digest if record.regrade else record.task.digest


def _version(record: TrialRecord, first: str) -> str:
    return record.regrade.seatrial_version if record.regrade else first


def _completed(record: TrialRecord) -> bool:
    return record.evaluation is not None and record.evaluation.validity.verifier_completed


def _reward_of_revision(record: TrialRecord) -> float | None:
    return record.evaluation.reward if record.evaluation else None


def _rewards(record: TrialRecord) -> str:
    several = record.verifier_run.repeats if record.verifier_run and not record.steps else ()
    return ", ".join(map(format_reward, several)) if len(several) > 1 else format_reward(_reward_of_revision(record))


def _tests(record: TrialRecord) -> str:
    return ", ".join(dict.fromkeys(digest[:_SHORT] for digest in _digests(record))) or "-"


def _when(record: TrialRecord) -> str:
    ended = record.regrade.finished_at if record.regrade else max((t.finished_at for t in record.times), default=None)
    return ended.isoformat(sep=" ", timespec="seconds") if ended else "-"
