"""The variables of the host that a job needs: which are not set, or are not for tasks, is said before it starts.

What an agent's own options ask for is the user's word. What a task asks for is a stranger's, and has to be allowed.
A task that asks for what no task ever gets, the key of a model provider, is left out of the job by `fitness.py`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from seatrial.agents.api import Agent, make_agent
from seatrial.errors import JobError
from seatrial.model.config import TaskConfig
from seatrial.model.job import AgentOptions, LeftOut, TrialOptions
from seatrial.tasks.allowed import allowed_variables, denied_defaults, keys_of, why_never
from seatrial.tasks.environ import declared_tables, missing_in

_MOST_NAMED = 3


def check_variables(
    configs: Mapping[str, TaskConfig],
    agents: Iterable[AgentOptions],
    options: TrialOptions,
    upstream: str | None = None,
    host: Mapping[str, str] = os.environ,
    left_out: Iterable[LeftOut] = (),
) -> list[str]:
    """See that tasks, given by id, and agents have the variables they cannot do without, less what is left out.

    Returns what the user should know. Raises JobError naming every variable that is not set or not allowed.
    """
    rules = _Rules(frozenset(options.allow_env), host, keys_of(upstream))
    if never := [reason for name in options.allow_env if (reason := rules.never(name))]:
        raise JobError("\n".join(["these variables cannot be allowed:", *(f"  {reason}" for reason in never)]))
    may_have = allowed_variables(rules.allowed, host)
    made = [(each, make_agent(each)) for each in agents]
    without = {(entry.task, entry.agent) for entry in left_out}
    unset, refused, denied = _Names(), _Names(), _Names()
    for task_id, config in configs.items():
        working = [(each, agent) for each, agent in made if (task_id, each.title) not in without]
        own = [_of_user(each, agent, config) for each, agent in working]
        of_task = [*declared_tables(config), *(solution_variables(each, agent, config) for each, agent in working)]
        unset.add(task_id, chain.from_iterable(missing_in(table, host) for table in own))
        refused.add(task_id, chain.from_iterable(missing_in(table, may_have) for table in of_task))
        denied.add(task_id, denied_defaults(of_task, rules.allowed, host))
    lines = unset.lines(lambda _: "it is not set; export it") + refused.lines(rules.way_out)
    if lines:
        raise JobError("\n".join(["these variables are needed and cannot be had:", *(f"  {line}" for line in lines)]))
    return denied.lines(lambda name: f"it is set here, tasks use their own default: {rules.way_out(name)}")


def keys_asked(
    tables: Iterable[Mapping[str, str]], upstream: str | None, host: Mapping[str, str] = os.environ
) -> list[str]:
    """Why a task of these tables cannot run at all: a line for each variable without a default that no task gets."""
    names = dict.fromkeys(chain.from_iterable(missing_in(table, {}) for table in tables))
    found = ((name, why_never(name, host, keys_of(upstream))) for name in names)
    return [f"${{{name}}}: {reason}" for name, reason in found if reason]


@dataclass(frozen=True, slots=True)
class _Rules:
    """What of the host's variables tasks may have; `keys` are those the job's upstream takes its keys from."""

    allowed: frozenset[str]
    host: Mapping[str, str]
    keys: frozenset[str]

    def never(self, name: str) -> str | None:
        return why_never(name, self.host, self.keys)

    def way_out(self, name: str) -> str:
        """Why tasks do not get a variable, and what to do about it."""
        if reason := self.never(name):
            return reason
        if name in self.host:
            return f"it is not allowed; --allow-env {name} lets tasks have it"
        allow = "" if name in self.allowed else f", and let tasks have it with --allow-env {name}"
        return f"it is not set; export it{allow}"


class _Names:
    """Names of variables, each with the tasks that are concerned."""

    def __init__(self) -> None:
        self._tasks: dict[str, list[str]] = {}

    def add(self, task_id: str, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            self._tasks.setdefault(name, []).append(task_id)

    def lines(self, describe: Callable[[str], str]) -> list[str]:
        return [f"{name} (for {_named(tasks)}): {describe(name)}" for name, tasks in sorted(self._tasks.items())]


def _of_user(options: AgentOptions, agent: Agent, config: TaskConfig) -> dict[str, str]:
    """What an agent resolves that the task has no hand in."""
    of_task = solution_variables(options, agent, config)
    return {name: text for name, text in agent.templates(config).items() if name not in of_task}


def solution_variables(options: AgentOptions, agent: Agent, config: TaskConfig) -> dict[str, str]:
    """What an agent resolves because the task says so: the oracle does, for the solution."""
    said, own = config.solution_env, options.env
    templates = agent.templates(config).items()
    return {name: text for name, text in templates if said.get(name) == text and own.get(name) != text}


def _named(tasks: list[str]) -> str:
    more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
    return ", ".join(tasks[:_MOST_NAMED]) + more
