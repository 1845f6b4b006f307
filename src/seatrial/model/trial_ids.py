"""The ids of trials, which are also the names of their folders."""

import hashlib
import re

_MAX_TASK, _MAX_AGENT = 120, 40  # with the rest they stay below 200 bytes; a file name may have 255
_PLAIN_TASK = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{_MAX_TASK - 1}}}", re.ASCII)
_PLAIN_AGENT = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_AGENT}}}", re.ASCII)
_ODD = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def trial_stem(task_id: str, agent: str) -> tuple[str, str]:
    """What stands before and after the attempt in the ids of one agent's trials at one task.

    Names that are not plain are made so, and a hash behind the attempt keeps them apart. It starts with a letter, so
    no plain id, which ends in a number, can look like one with a hash.
    """
    if _PLAIN_TASK.fullmatch(task_id) and _PLAIN_AGENT.fullmatch(agent):
        return f"{task_id}.{agent}.", ""
    task_slug = _ODD.sub("-", task_id)[:_MAX_TASK].strip("-") or "task"
    agent_slug = _ODD.sub("-", agent)[:_MAX_AGENT].strip("-") or "agent"
    names = f"{len(task_id)}:{task_id}{agent}".encode("utf-8", "surrogatepass")
    return f"{task_slug}.{agent_slug}.", f".h{hashlib.sha256(names).hexdigest()[:12]}"


def trial_id(task_id: str, agent: str, attempt: int) -> str:
    """The id of a trial, which is also the name of its folder: `<task>.<agent>.<attempt>`, safe whatever the names."""
    before, after = trial_stem(task_id, agent)
    return f"{before}{attempt}{after}"
