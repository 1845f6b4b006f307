"""The commands that do a trial again, show it, and judge it again: lines to be copied into a shell."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.model.base import StrictModel
from seatrial.model.job import AGENT_FILES_DIR, AgentOptions, JobSpec
from seatrial.model.record import TrialRecord
from seatrial.trial.snapshot import ARCHIVE
from seatrial.view.trial.opened import OpenedTrial

_TRIAL = {
    "backend": "--backend",
    "image": "--image",
    "image_fallback": "--image-fallback",
    "isolation": "--verify-isolation",
    "network": "--network",
    "cpus": "--cpus",
    "agent_timeout_multiplier": "--agent-timeout-multiplier",
    "verifier_timeout_multiplier": "--verifier-timeout-multiplier",
    "pass_threshold": "--pass-threshold",
    "keep": "--keep",
    "verdict": "--verdict",
    "verify_repeats": "--verify-repeats",
    "max_busy": "--max-busy",
    "ca_file": "--ca-file",
}
_UNITS = {"memory_mb": ("--memory", "M"), "storage_mb": ("--storage", "M"), "agent_timeout_sec": ("--timeout", "s")}
_FLAGS = {
    "build": "--force-build",
    "enforcement": "--allow-partial-limits",
    "private_hosts": "--allow-private-hosts",
    "unfit": "--force",
    "proxy": "--use-proxy",
}
_MODEL = {
    "upstream": "--upstream",
    "translate": "--translate",
    "temperature": "--temperature",
    "max_output_tokens": "--max-output-tokens",
    "max_turns": "--max-turns",
    "max_tokens": "--max-tokens",
    "max_cost_usd": "--max-cost",
    "prices": "--prices",
}
_NO_OPTION = {"trial": ("reward_policy", "solution", "layout"), "model": ("top_p", "seed")}
"""What only a job file can say."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command, what it does, and what it leaves out."""

    does: str
    line: str
    note: str = ""


def commands_for(trial: OpenedTrial) -> list[ShellCommand]:
    """The commands about a trial that can be given now."""
    job, record = _folder(trial), trial.record
    found = [ShellCommand("Show it in a terminal", _line("seatrial", "show", job, trial.trial_id))]
    if record is None:
        return found
    if record.model_usage:
        found.append(ShellCommand("Show its conversation", _line("seatrial", "calls", job, trial.trial_id)))
    found += _judging(trial, record)
    return [*found, *_running(trial, record)]


def _judging(trial: OpenedTrial, record: TrialRecord) -> Iterator[ShellCommand]:
    states = [record.end_state, *(step.end_state for step in record.steps)]
    if not any(state and state.kept for state in states):
        return
    regrade = _line("seatrial", "regrade", _folder(trial), "--trial", trial.trial_id)
    yield ShellCommand("Judge its end state again, as a new revision", regrade)
    if trial.task and (trial.folder / ARCHIVE).is_file():
        verify = _line("seatrial", "verify", trial.task.root, "--state", str(trial.folder.absolute()))
        yield ShellCommand("Judge its end state by the task's tests of now, and store nothing", verify)


def _running(trial: OpenedTrial, record: TrialRecord) -> Iterator[ShellCommand]:
    spec, title = trial.job.file.spec, trial.entry.agent if trial.entry else record.agent.name
    agent = next((each for each in spec.agents if each.title == title), None)
    if trial.job.file.driver != "job" or agent is None or trial.task is None:
        return
    words = ["seatrial", "run", "-p", trial.task.root, *agent_words(agent), *option_words(spec)]
    tables: dict[str, StrictModel] = {"trial": spec.trial, "model": spec.model}
    left_out = [name for kind, names in _NO_OPTION.items() for name in names if _is_odd(tables[kind], name)]
    note = f"no option for: {', '.join(left_out)}; a job file can say it" if left_out else ""
    yield ShellCommand("Run this agent at this task again, as a new job", _line(*words), note)


def agent_words(agent: AgentOptions) -> Iterator[str]:
    """The words of a command line that name an agent."""
    if agent.command is not None and agent.preset is None:
        yield f"--command={agent.command}"
    else:
        yield from ("-a", f"{agent.name}@{agent.version}" if agent.version else agent.name)
    if agent.model:
        yield from ("-m", agent.model)
    if agent.setup and agent.preset is None:
        yield f"--agent-setup={agent.setup}"
    for files in agent.files:
        where = "" if files.target == AGENT_FILES_DIR else f":{files.target}"
        yield from ("--agent-files", f"{files.source}{where}")
    if agent.layer:
        yield from ("--agent-layer", agent.layer.source)
    for name, value in agent.env.items():
        yield f"--agent-env={name}={value}"
    for name, value in agent.options.items():
        yield f"--agent-option={name}={value}"


def option_words(spec: JobSpec) -> Iterator[str]:
    """The words for all that is not as it usually is with trials and models."""
    yield from _named(spec.trial, _TRIAL)
    for name, (option, unit) in _UNITS.items():
        if _is_odd(spec.trial, name):
            yield from (option, f"{getattr(spec.trial, name)}{unit}")
    yield from (flag for name, flag in _FLAGS.items() if _is_odd(spec.trial, name))
    if spec.trial.trust == "as_left":
        yield from ("--trust", "as-left")
    for name, image in spec.trial.image_map.items():
        yield f"--image-map={name}={image}"
    for name in spec.trial.allow_env:
        yield from ("--allow-env", name)
    yield from _named(spec.model, _MODEL)


def _named(options: StrictModel, names: dict[str, str]) -> Iterator[str]:
    for name, option in names.items():
        if _is_odd(options, name):
            yield from (option, str(getattr(options, name)))


def _is_odd(options: StrictModel, name: str) -> bool:
    return bool(getattr(options, name) != type(options).model_fields[name].default)


def _folder(trial: OpenedTrial) -> str:
    return str(trial.job.path.absolute())


def _line(*words: str) -> str:
    return shlex.join(words)
