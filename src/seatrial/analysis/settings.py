"""Under which conditions the same tasks were run on both sides, as their records tell.

The index has a digest of them for each trial. Where those are the same there is nothing to explain; else records are
read, one of each side for each kind of difference and no more than a few, to say what it is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.analysis.arms import Arm
from seatrial.analysis.differences import Difference, Weight, shown
from seatrial.errors import SeatrialError
from seatrial.model.record import TrialRecord
from seatrial.store.entry_facts import setting_facts
from seatrial.store.index import TrialEntry

LOOKED_AT = 20
"""So many records of each side are read: enough to name what differs, and never a whole job."""


@dataclass
class _Found:
    first: str
    second: str
    example: str
    tasks: int = 0
    weight: Weight = "condition"


def setting_differences(first: Arm, second: Arm, tasks: Sequence[str]) -> list[Difference]:
    """What was different while the same tasks were run or judged."""
    kinds: dict[tuple[str | None, str | None], list[tuple[TrialEntry, TrialEntry]]] = defaultdict(list)
    for one, other in _trials_that_differ(first, second, tasks):
        kinds[one.setting, other.setting].append((one, other))
    found: dict[str, _Found] = {}
    looked_at = 0
    for pairs in [*kinds.values()][:LOOKED_AT]:
        facts = [_facts(arm, trial) for arm, trial in zip((first, second), pairs[0], strict=True)]
        if facts[0] is None or facts[1] is None:
            continue
        looked_at += len(pairs)
        _add(found, facts[0], facts[1], pairs)
    every = sum(map(len, kinds.values()))
    return [*_named(found), *_not_looked_at(every - looked_at)]


def _trials_that_differ(first: Arm, second: Arm, tasks: Iterable[str]) -> Iterator[tuple[TrialEntry, TrialEntry]]:
    """For each task one trial of either side whose settings the other one does not have."""
    wanted = {task for task, _ in first.pool.settings ^ second.pool.settings}.intersection(tasks)
    sides = [_by_setting(arm, wanted) for arm in (first, second)]
    for task in sorted(wanted):
        one, other = sides[0].get(task, {}), sides[1].get(task, {})
        if one.keys() == other.keys() or not one or not other:
            continue
        yield _unlike(one, other), _unlike(other, one)


def _by_setting(arm: Arm, tasks: set[str]) -> dict[str, dict[str, TrialEntry]]:
    found: dict[str, dict[str, TrialEntry]] = defaultdict(dict)
    for trial in arm.scored if tasks else ():
        if trial.setting is not None and trial.task_id in tasks:
            found[trial.task_id].setdefault(trial.setting, trial)
    return found


def _unlike(own: Mapping[str, TrialEntry], others: Mapping[str, TrialEntry]) -> TrialEntry:
    """A trial with a setting that the other side has not, else any."""
    return own[min(own.keys() - others.keys() or own.keys())]


def _facts(arm: Arm, trial: TrialEntry) -> dict[str, Any] | None:
    """The conditions of a trial; None where its record cannot be read any more."""
    try:
        record: TrialRecord = arm.job.store.record(trial.trial_id)
    except SeatrialError:
        return None
    facts = setting_facts(record)
    limits = {f"{name} enforced": value for name, value in facts.pop("limits").items()}
    return {**facts, **limits}


def _add(
    found: dict[str, _Found],
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    pairs: Sequence[tuple[TrialEntry, TrialEntry]],
) -> None:
    for name in first:
        if first[name] != second[name]:
            new = _Found(_shown(name, first[name]), _shown(name, second[name]), pairs[0][0].task_id)
            known = found.setdefault(name, new)
            known.tasks += len(pairs)
            # An agent whose processes were beside the verifier may have had a hand in its verdict.
            if name == "isolation" and ("exposed" in first[name]) != ("exposed" in second[name]):
                known.weight = "meaning"


def _shown(name: str, value: Any) -> str:
    if name == "isolation" and not value:
        return "unknown"  # of results that another program stored, or whose verifier left no word
    return "unlimited" if value is None and name.endswith("enforced") else shown(value)


def _named(found: Mapping[str, _Found]) -> Iterator[Difference]:
    for name, each in found.items():
        yield Difference(name, each.weight, each.first, each.second, each.tasks, each.example)


def _not_looked_at(tasks: int) -> Iterator[Difference]:
    if tasks:
        yield Difference("other settings, not read", "condition", "unlike the other's", "unlike the other's", tasks)
