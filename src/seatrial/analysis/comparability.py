"""Whether numbers of two arms can be held against each other: every difference between them, by what it weighs.

Other tests or another threshold make another reward of the same work; such a comparison is refused unless somebody
insists. All else is named beside the numbers, so that a reader can think about it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.analysis.arms import Arm
from seatrial.errors import SeatrialError
from seatrial.model.base import without_cache
from seatrial.model.job import AgentOptions, JobFile, ModelOptions, TrialOptions
from seatrial.model.options import Option, options_of
from seatrial.model.outcome import format_mean
from seatrial.model.record import TrialRecord
from seatrial.store.index import TrialEntry, setting_facts

# What two jobs asked for: some differences change what a reward means, others are conditions that a reader has to know,
# and some are what is compared.

Weight = Literal["meaning", "condition", "subject"]
"""Whether a difference changes what a reward means, is a condition, or is the very thing that is compared."""

_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same on both sides, with what each of them had.

    `tasks` is at how many of the compared tasks that is so, None where it is about all; `example` is one of them, and
    the values are those of it.
    """

    name: str
    weight: Weight
    first: str
    second: str
    tasks: int | None = None
    example: str | None = None


def asked_differences(first: Arm, second: Arm) -> list[Difference]:
    """What was asked for otherwise: nothing within one job but the agent."""
    one, other = first.job.file, second.job.file
    found = [*_of_trials(one.spec.trial, other.spec.trial), *_of_models(one.spec.model, other.spec.model)]
    found += differing("attempts", "condition", one.spec.attempts, other.spec.attempts)
    found += differing("rewards of the source", "meaning", _source_range(one), _source_range(other))
    found += differing("Seatrial version", "condition", one.seatrial_version, other.seatrial_version)
    return [*found, *_of_agents(_agent(first), _agent(second))]


def _source_range(file: JobFile) -> str:
    """What was mapped onto 0 to 1 when a job was imported: half of another range is another reward."""
    low, high = (file.imported and file.imported.reward_range) or (0.0, 1.0)
    return f"{low:g} to {high:g}"


def differing(name: str, weight: Weight, first: Any, second: Any) -> list[Difference]:
    """The difference of two values, none where they are the same."""
    return [] if first == second else [Difference(name, weight, shown(first), shown(second))]


def shown(value: Any) -> str:
    """A value in a few words."""
    if value is None or value in ((), {}, ""):
        return "none"
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, tuple | list):
        value = ", ".join(map(str, value))
    text = printable(f"{value:g}" if isinstance(value, float) else str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def printable(text: str) -> str:
    """A stranger's text on one line, without what would steer a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def difference_line(difference: Difference) -> str:
    line = f"{difference.name}: {difference.first} / {difference.second}"
    if difference.tasks is None:
        return line
    example = f", such as {printable(difference.example)}" if difference.example else ""
    return f"{line} (at {difference.tasks:,} of the tasks{example})"


def _of_trials(first: TrialOptions, second: TrialOptions) -> Iterator[Difference]:
    options = options_of(TrialOptions)
    for name in TrialOptions.model_fields:
        if weight := options.get(name, Option()).weight:
            yield from differing(name, weight, _meant(name, first), _meant(name, second))
    # What the agent left running can work on the verdict only where it is allowed to stay beside the verifier.
    weaker = (first.isolation == "keep") != (second.isolation == "keep")
    yield from differing("isolation", "meaning" if weaker else "condition", first.isolation, second.isolation)


def _meant(name: str, options: TrialOptions) -> Any:
    """An option, without the cache before an upstream: that changes no answer."""
    return without_cache(options.verifier_upstream) if name == "verifier_upstream" else getattr(options, name)


def _of_models(first: ModelOptions, second: ModelOptions) -> Iterator[Difference]:
    for name in ModelOptions.model_fields:
        yield from differing(f"model {name}", "condition", getattr(first, name), getattr(second, name))


def _agent(arm: Arm) -> AgentOptions | None:
    return next((agent for agent in arm.job.file.spec.agents if agent.title == arm.agent), None)


def _of_agents(first: AgentOptions | None, second: AgentOptions | None) -> Iterator[Difference]:
    """What is compared. Of variables only the names are told: their values may be secrets."""
    if first is None or second is None:
        return
    yield from differing("agent", "subject", first.title, second.title)
    if first.label or second.label:
        yield from differing("agent name", "subject", first.name, second.name)
    for name in ("version", "model", "command", "setup", "options"):
        yield from differing(f"agent {name}", "subject", getattr(first, name), getattr(second, name))
    names = sorted(name for name in {*first.env, *second.env} if first.env.get(name) != second.env.get(name))
    if names:
        yield Difference("agent variables", "subject", _has(first, names), _has(second, names))
    yield from _of_digests(first, second)


def _has(agent: AgentOptions, names: list[str]) -> str:
    return shown([f"{name} ({'set' if name in agent.env else 'not set'})" for name in names])


def _of_digests(first: AgentOptions, second: AgentOptions) -> Iterator[Difference]:
    yield from differing("agent files", "subject", _files(first), _files(second))
    yield from differing("agent layer", "subject", _layer(first), _layer(second))
    if first.preset != second.preset:
        yield Difference("agent preset", "subject", _preset(first), _preset(second))


def _preset(agent: AgentOptions) -> str:
    return shown((agent.preset or {}).get("name"))


def _files(agent: AgentOptions) -> list[str]:
    return [f"{files.target} {(files.digest or 'unknown')[:12]}" for files in agent.files]


def _layer(agent: AgentOptions) -> str | None:
    recipe = f"{agent.recipe.name} {agent.recipe.version}" if agent.recipe else None
    return (agent.layer.digest or "unknown")[:12] if agent.layer else recipe


# Under which conditions the same tasks were run. The index has a digest of them for each trial; where those differ, a
# few records are read to say how.

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
    wanted = {task for task, _ in first.selected.settings ^ second.selected.settings}.intersection(tasks)
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


_VERY_DIFFERENT = 0.1
"""How far apart the shares of trials without a verdict may be before a reader is warned."""


@dataclass(frozen=True, slots=True)
class Comparability:
    """All differences between two arms, and what makes their comparison doubtful even where it is allowed."""

    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()

    def of(self, weight: Weight) -> list[Difference]:
        """Those of one weight."""
        return [each for each in self.differences if each.weight == weight]

    @property
    def comparable(self) -> bool:
        """Whether a reward means the same on both sides."""
        return not self.of("meaning")


def comparability(first: Arm, second: Arm) -> Comparability:
    """Every difference between two arms; about tasks, as far as both were judged on them."""
    common = sorted(first.rewards.keys() & second.rewards.keys())
    judged = _judged_by(first, second, set(common))
    asked = [each for each in asked_differences(first, second) if each.name not in judged]
    known = {(each.name, each.first, each.second) for each in asked}
    settings = setting_differences(first, second, common)
    found = [
        *_task_contents(first, second, common),
        *_tests(first, second, common),
        *asked,
        *(each for found in judged.values() for each in found),
        *(each for each in settings if (each.name, each.first, each.second) not in known),
        *_tasks_of_one_side(first, second),
        *_counts(first, second),
        *differing("prices", "condition", first.selected.prices, second.selected.prices),
    ]
    return Comparability(tuple(found), tuple(_warnings(first, second)))


def _task_contents(first: Arm, second: Arm, common: Iterable[str]) -> Iterator[Difference]:
    digests = [arm.job.digests for arm in (first, second)]
    changed = [task for task in common if digests[0].get(task) != digests[1].get(task)]
    if changed:
        one, other = (each.get(changed[0], "unknown")[:12] for each in digests)
        yield Difference("content of the task", "meaning", one, other, len(changed), changed[0])


def _tests(first: Arm, second: Arm, common: Iterable[str]) -> Iterator[Difference]:
    """Other tests that judged the same task: the task was changed, or one side was judged again. Where only one side
    knows its tests, nobody can tell whether they are the same.
    """
    sides = [arm.selected.tests for arm in (first, second)]
    known = [task for task in common if sides[0].get(task) and sides[1].get(task)]
    changed = [task for task in known if len(sides[0][task] | sides[1][task]) > 1]
    unknown = [task for task in common if (task in sides[0]) != (task in sides[1])]
    found: tuple[tuple[list[str], Weight], ...] = ((changed, "meaning"), (unknown, "condition"))
    for tasks, weight in found:
        if tasks:
            one, other = (shown(sorted(each.get(tasks[0], ("unknown",)))) for each in sides)
            yield Difference("tests that judged", weight, one, other, len(tasks), tasks[0])


def _judged_by(first: Arm, second: Arm, common: Collection[str]) -> dict[str, list[Difference]]:
    """Options that trials were judged again by, with what differs in them: not what the jobs asked for, but by what
    the verdicts that count were made.
    """
    meaning = {name for name, option in options_of(TrialOptions).items() if option.weight == "meaning"}
    sides = [_regrade_options(arm, common) for arm in (first, second)]
    found = {}
    for name in sorted({name for options in sides for each in options for name in each}):
        one, other = (
            sorted({shown(each.get(name, getattr(arm.job.file.spec.trial, name, None))) for each in options})
            for arm, options in zip((first, second), sides, strict=True)
        )
        weaker = name == "isolation" and ("keep" in one) != ("keep" in other)
        weight: Weight = "meaning" if name in meaning or weaker else "condition"
        found[name] = differing(name, weight, one, other)
    return found


def _regrade_options(arm: Arm, common: Collection[str]) -> list[dict[str, Any]]:
    """What a few records of trials that were judged again say; of each revision and each kind of tests one is read.
    Trials that were not have no options of their own.
    """
    if not arm.selected.is_regraded:
        return [{}] if common else []
    kinds: dict[tuple[str | None, int], TrialEntry] = {}
    revisions: dict[int, TrialEntry] = {}
    for trial in arm.scored:
        if trial.task_id in common:
            kinds.setdefault((trial.tests if trial.revision else None, trial.revision), trial)
            revisions.setdefault(trial.revision, trial)
    chosen = dict.fromkeys(trial.trial_id for trial in [*revisions.values(), *kinds.values()] if trial.revision)
    found = [_options_of(arm, trial) for trial in [*chosen][:LOOKED_AT]]
    return [{}, *found] if 0 in revisions else found


def _options_of(arm: Arm, trial_id: str) -> dict[str, Any]:
    try:
        regrade = arm.job.store.record(trial_id).regrade
    except SeatrialError:
        return {}
    return dict(regrade.options) if regrade else {}


def _tasks_of_one_side(first: Arm, second: Arm) -> Iterator[Difference]:
    planned = [arm.planned_tasks.keys() for arm in (first, second)]
    yield from _unlike_conditions(
        "tasks that only this side has", (len(planned[0] - planned[1]), len(planned[1] - planned[0]))
    )
    judged = [arm.rewards.keys() for arm in (first, second)]
    yield from _unlike_conditions(
        "judged tasks that the other lacks", (len(judged[0] - judged[1]), len(judged[1] - judged[0]))
    )


def _unlike_conditions(name: str, counts: tuple[int, int]) -> Iterator[Difference]:
    if any(counts):
        yield Difference(name, "condition", f"{counts[0]:,}", f"{counts[1]:,}")


def _counts(first: Arm, second: Arm) -> Iterator[Difference]:
    """What happened to trials and may have moved their rewards, where it did so to a larger share of one side."""
    for name, one in first.selected.happened.items():
        other = second.selected.happened[name]
        if one * len(second.trials) != other * len(first.trials):
            values = f"{one:,} of {len(first.trials):,}", f"{other:,} of {len(second.trials):,}"
            yield Difference(name, "condition", *values)


def _unscored(arm: Arm) -> int:
    return len(arm.trials) - len(arm.scored)


def _warnings(first: Arm, second: Arm) -> Iterator[str]:
    shares = [_unscored(arm) / len(arm.trials) if arm.trials else 0.0 for arm in (first, second)]
    if abs(shares[0] - shares[1]) > _VERY_DIFFERENT:
        without = " and ".join(format_mean(share, ".0%") for share in shares)
        yield (
            f"{without} of the trials have no verdict; if those are not like the others, the difference is not that of "
            "the agents"
        )
    for arm in (first, second):
        if (waiting := arm.planned - len(arm.trials)) > 0:
            trials, have = ("trial", "has") if waiting == 1 else ("trials", "have")
            so_far = f"{waiting:,} planned {trials} of {arm.label} {have} no record yet"
            yield f"{so_far}: so it stands, it may end otherwise"
