"""The revisions of a trial, told: what each of them gave, and why it is not what the one before gave."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from seatrial.model.record import TrialRecord
from seatrial.report.text import counted, format_reward, harmless

Row = tuple[str, ...]

REVISION_COLUMNS = ("revision", "outcome", "reward", "tests", "when", "beside the one before")
_SHORT = 12


def revision_rows(records: Sequence[TrialRecord], version: str) -> list[Row]:
    """One row for each revision of a trial, the first one first; none where there is only that.

    `version` is that of the Seatrial that made the job.
    """
    if len(records) < 2:
        return []
    told = [
        "as it ran",
        *(compare(old, new, version) for old, new in pairwise(records)),
    ]
    return [
        (str(record.revision), record.outcome, _rewards(record), _tests(record), _when(record), harmless(words))
        for record, words in zip(records, told, strict=True)
    ]


def compare(before: TrialRecord, after: TrialRecord, version: str) -> str:
    """Whether two verdicts on one end state are the same, and all that may be the reason if they are not."""
    same = (before.outcome, _reward(before)) == (after.outcome, _reward(after))
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


def _reward(record: TrialRecord) -> float | None:
    return record.evaluation.reward if record.evaluation else None


def _rewards(record: TrialRecord) -> str:
    several = record.verifier_run.repeats if record.verifier_run and not record.steps else ()
    return ", ".join(map(format_reward, several)) if len(several) > 1 else format_reward(_reward(record))


def _tests(record: TrialRecord) -> str:
    return ", ".join(dict.fromkeys(digest[:_SHORT] for digest in _digests(record))) or "-"


def _when(record: TrialRecord) -> str:
    ended = record.regrade.finished_at if record.regrade else max((t.finished_at for t in record.times), default=None)
    return ended.isoformat(sep=" ", timespec="seconds") if ended else "-"
