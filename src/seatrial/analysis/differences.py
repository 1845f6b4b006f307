"""What two jobs asked for that is not the same: options of trials and models, agents, versions.

Every difference is named with the values of both sides. Some change what a reward means, so that numbers of both sides
cannot be held against each other; others are conditions that a reader has to know; and some are what is compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.analysis.arms import Arm
from seatrial.model.job import AgentOptions, JobFile, ModelOptions, TrialOptions

Weight = Literal["meaning", "condition", "subject"]
"""Whether a difference changes what a reward means, is a condition, or is the very thing that is compared."""

MEANING = frozenset({"pass_threshold", "reward_policy", "trust", "verdict", "verify_repeats", "solution", "layout"})
"""Options of trials that change what a reward means."""

_NO_MATTER = frozenset({"build", "keep", "unfit", "ca_file", "allow_env", "isolation"})
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
    """A difference on one line."""
    line = f"{difference.name}: {difference.first} / {difference.second}"
    if difference.tasks is None:
        return line
    example = f", such as {printable(difference.example)}" if difference.example else ""
    return f"{line} (at {difference.tasks:,} of the tasks{example})"


def _of_trials(first: TrialOptions, second: TrialOptions) -> Iterator[Difference]:
    for name in TrialOptions.model_fields:
        if name not in _NO_MATTER:
            weight: Weight = "meaning" if name in MEANING else "condition"
            yield from differing(name, weight, getattr(first, name), getattr(second, name))
    # What the agent left running can work on the verdict only where it is allowed to stay beside the verifier.
    weaker = (first.isolation == "keep") != (second.isolation == "keep")
    yield from differing("isolation", "meaning" if weaker else "condition", first.isolation, second.isolation)


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
