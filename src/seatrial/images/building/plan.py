"""Which stages a Dockerfile has, and which of them a build needs. Pure: steps in, stages out."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.images.building.instructions import Arg, Copy, From, Step
from seatrial.images.building.words import WordError


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage: its FROM, and the steps behind it."""

    number: int
    start: Step
    base: From
    steps: tuple[Step, ...]


def split_stages(steps: Sequence[Step]) -> tuple[list[Arg], list[StagePlan]]:
    """The arguments before the first stage, and the stages."""
    starts = [index for index, step in enumerate(steps) if isinstance(step.what, From)]
    before = [step.what for step in steps[: starts[0]] if isinstance(step.what, Arg)]
    stages: list[StagePlan] = []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(steps)], strict=True)):
        what = steps[start].what
        assert isinstance(what, From)  # noqa: S101 - as just selected
        stages.append(StagePlan(number, steps[start], what, tuple(steps[start + 1 : end])))
    return before, stages


def find_target(stages: Sequence[StagePlan], target: str | None) -> StagePlan:
    """The stage to build: the last one, or the one of that name or number. Raises WordError."""
    if target is None:
        return stages[-1]
    found = find_stage(stages, target)
    if found is None:
        names = ", ".join(stage.base.name or str(stage.number) for stage in stages)
        raise WordError(f"there is no stage {target!r}; there are {names}")
    return found


def find_stage(stages: Sequence[StagePlan], word: str) -> StagePlan | None:
    """The latest of some stages that has this name, or the one of that number; None when the word means none."""
    named = [stage for stage in stages if stage.base.name == word.lower()]
    numbered = [stage for stage in stages if str(stage.number) == word]
    return next(iter([*reversed(named), *numbered]), None)


def needed_stages(stages: Sequence[StagePlan], bases: Sequence[str], target: StagePlan) -> list[StagePlan]:
    """The target with all it is built on or copied from, in order; `bases` are what the FROMs say in the end."""
    needed: set[int] = set()
    pending = [target]
    while pending:
        stage = pending.pop()
        if stage.number in needed:
            continue
        needed.add(stage.number)
        words = [bases[stage.number], *(_origins(stage))]
        pending += [found for word in words if (found := find_stage(stages[: stage.number], word))]
    return [stages[number] for number in sorted(needed)]


def _origins(stage: StagePlan) -> list[str]:
    return [step.what.origin for step in stage.steps if isinstance(step.what, Copy) and step.what.origin]
