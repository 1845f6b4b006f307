"""Whether a job may be gone on with: what is different from when it was begun, and what is left to do."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from seatrial.jobs.plan import TrialPlan
from seatrial.model.base import StrictModel
from seatrial.model.job import JobSpec, LockedTask, ModelOptions, TrialOptions


def compare_specs(old: JobSpec, new: JobSpec) -> list[str]:
    """What is different between two specs so that their results must not be mixed, one readable line each.

    How a job is carried out (`run`) does not matter, and what only adds to a job is told by `extensions`.
    """
    # Which unfit tasks there may be says nothing about what results mean.
    of_trials = [name for name in TrialOptions.model_fields if name != "unfit"]
    found = _compare(old, new, ("name",)) + _compare(old.trial, new.trial, of_trials, "trial.")
    found += _compare(old.model, new.model, ModelOptions.model_fields, "model.")
    if new.attempts < old.attempts:
        found.append(f"attempts: was {old.attempts}, is {new.attempts}, which is fewer")
    now = {agent.title: agent for agent in new.agents}
    for agent in old.agents:
        if agent.title not in now:
            found.append(f"agents: {agent.title!r} is not among them any more")
        else:
            fields = type(agent).model_fields
            found += _compare(agent, now[agent.title], fields, f"agents.{agent.title}.")
    return found


def extensions(old: JobSpec, new: JobSpec) -> list[str]:
    """What a new spec adds to a job, or may add: which tasks it chooses is known when they have been looked for."""
    found = _compare(old, new, ("tasks", "include", "exclude", "max_tasks"))
    if new.attempts > old.attempts:
        found.append(f"attempts: was {old.attempts}, is {new.attempts}")
    titles = {agent.title for agent in old.agents}
    return found + [f"agents: {agent.title!r} is new" for agent in new.agents if agent.title not in titles]


def _compare(old: StrictModel, new: StrictModel, fields: Iterable[str], prefix: str = "") -> list[str]:
    return [
        f"{prefix}{name}: was {_shown(before)}, is {_shown(after)}"
        for name in fields
        if (before := getattr(old, name)) != (after := getattr(new, name))
    ]


def _shown(value: object) -> str:
    if value is None or value in ((), {}):
        return "nothing"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)


def changed_tasks(locked: Iterable[LockedTask], now: Mapping[str, str | None]) -> list[str]:
    """What happened to locked tasks, by their digests now: None for one that is gone. Others are not judged."""
    found = []
    for task in locked:
        digest = now.get(task.id, task.digest)
        if digest is None:
            found.append(f"task {task.id}: is not at {task.root} any more, or cannot be read as a task")
        elif digest != task.digest:
            found.append(f"task {task.id}: its files have changed (digest was {task.digest[:12]}, is {digest[:12]})")
    return found


def remaining(planned: Sequence[TrialPlan], finished: Collection[str]) -> list[TrialPlan]:
    """The planned trials that have no record yet, in their order."""
    return [plan for plan in planned if plan.trial_id not in finished]
