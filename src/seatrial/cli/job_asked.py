"""How the options of a command line become a JobSpec: a job file first, the command line over it."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.cli.agents_asked import agents_asked
from seatrial.cli.harbor_config import JOBS_DIR
from seatrial.cli.job_agents import with_agents
from seatrial.cli.job_file import build_spec, read_job_file
from seatrial.cli.job_images import check_images, whole_image
from seatrial.errors import JobError
from seatrial.jobs.api import job_name, new_job_folder
from seatrial.model.job import JobSpec, TrialOptions

Options = Mapping[str, Any]

# Where in a JobSpec an option goes whose value is used as it is.
_KEYS = {
    "include": "include",
    "exclude": "exclude",
    "max_tasks": "max_tasks",
    "attempts": "attempts",
    "backend": "trial.backend",
    "image": "trial.image",
    "image_map": "trial.image_map",
    "image_fallback": "trial.image_fallback",
    "build": "trial.build",
    "isolation": "trial.isolation",
    "enforcement": "trial.enforcement",
    "network": "trial.network",
    "private_hosts": "trial.private_hosts",
    "allow_env": "trial.allow_env",
    "ca_file": "trial.ca_file",
    "proxy": "trial.proxy",
    "cpus": "trial.cpus",
    "memory_mb": "trial.memory_mb",
    "storage_mb": "trial.storage_mb",
    "agent_timeout_sec": "trial.agent_timeout_sec",
    "agent_timeout_multiplier": "trial.agent_timeout_multiplier",
    "verifier_timeout_multiplier": "trial.verifier_timeout_multiplier",
    "pass_threshold": "trial.pass_threshold",
    "trust": "trial.trust",
    "keep": "trial.keep",
    "verdict": "trial.verdict",
    "verify_repeats": "trial.verify_repeats",
    "max_busy": "trial.max_busy",
    "unfit": "trial.unfit",
    "upstream": "model.upstream",
    "temperature": "model.temperature",
    "max_output_tokens": "model.max_output_tokens",
    "max_turns": "model.max_turns",
    "max_tokens": "model.max_tokens",
    "max_cost_usd": "model.max_cost_usd",
    "prices": "model.prices",
    "translate": "model.translate",
    "engine": "run.engine",
    "address": "run.address",
    "concurrent": "run.concurrent",
    "retries": "run.retries",
    "max_trials": "run.max_trials",
    "max_wall_sec": "run.max_wall_sec",
    "host_wait_sec": "run.host_wait_sec",
    "preflight": "run.preflight",
    "keep_going": "run.keep_going",
}


def new_job(options: Options) -> tuple[JobSpec, Path]:
    """The job that was asked for and the folder it goes to. Raises JobError for one that cannot be."""
    file: Path | None = options["job_file"]
    values = read_job_file(file) if file else {}
    _merge(values, _overrides(options, values.get("agents")))
    values["name"], folder = _place(options, values)
    if not values.get("tasks"):
        raise JobError("no tasks; name a task or a folder of tasks with -p, or `tasks` in a job file")
    if not values.get("agents"):
        raise JobError("no agent; name one with -a (such as -a oracle), give a --command, or [[agents]] in a job file")
    spec = build_spec(values, str(file) if file else "command line")
    check_images(spec.trial)
    return spec, folder


def job_of_agents(options: Options, name: str, agents: Sequence[str]) -> JobSpec:
    """What the options say of tasks and trials, for agents that the command itself names. Raises JobError."""
    values = _overrides(options, None)
    if not values.get("tasks"):
        raise JobError("no tasks; name a task or a folder of tasks")
    named = {"name": name, "agents": [{"name": agent} for agent in agents]}
    spec = build_spec({**values, **named}, "command line")
    check_images(spec.trial)
    return spec


def trial_asked(options: Options, base: Mapping[str, Any]) -> TrialOptions:
    """What the options say about trials, over what is known already. Raises JobError for what cannot be."""
    trial = {**base, **_overrides(options, None).get("trial", {})}
    values = {"name": "one", "tasks": ["."], "agents": [{"name": "noop"}], "trial": trial}
    spec = build_spec(values, "command line")
    check_images(spec.trial)
    return spec.trial


def changed_job(spec: JobSpec, options: Options) -> JobSpec:
    """A stored job with what the options add to it: tasks and agents beside its own, other numbers in their place."""
    values = spec.model_dump(mode="json", exclude_unset=True)
    added = _overrides(options, None)
    if options["models"] and "agents" not in added:
        raise JobError("-m names the model of agents that are added to the job; give -a or --command too")
    added["tasks"] = [*values["tasks"], *(path for path in added.get("tasks", ()) if path not in values["tasks"])]
    added["agents"] = with_agents(values["agents"], added.get("agents", ()))
    if options.get("engine") and not options.get("address"):
        values.get("run", {}).pop("address", None)  # that of the engine it had
    _merge(values, added)
    return build_spec(values, "command line")


def _overrides(options: Options, agents_of_file: Any) -> dict[str, Any]:
    """What the command line says, in the shape of a JobSpec; only what was given."""
    values: dict[str, Any] = {}
    for name, key in _KEYS.items():
        given = options.get(name)
        if given is not None and given not in ((), {}):
            _put(values, key, list(given) if isinstance(given, tuple) else given)
    if paths := (*options.get("paths", ()), *options.get("more_paths", ())):
        values["tasks"] = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - links stay as they were named
    if agents := agents_asked(options, agents_of_file):
        values["agents"] = agents
    _both_timeouts(options, values)
    _order(options, values)
    if image := values.get("trial", {}).get("image"):
        values["trial"]["image"] = whole_image(image)
    return values


def _both_timeouts(options: Options, values: dict[str, Any]) -> None:
    both = options.get("timeout_multiplier")
    if both is None:
        return
    for phase in ("agent", "verifier"):
        if options[f"{phase}_timeout_multiplier"] is not None:
            raise JobError(f"--timeout-multiplier and --{phase}-timeout-multiplier: give one of them")
        _put(values, f"trial.{phase}_timeout_multiplier", both)


def _order(options: Options, values: dict[str, Any]) -> None:
    seed = options.get("seed")
    if seed is not None and not options["shuffle"]:
        raise JobError("--seed is the seed of a random order; give --shuffle too")
    if options.get("shuffle"):
        # Drawn here and stored with the job, so that this order can be had again.
        _put(values, "run.shuffle_seed", secrets.randbelow(2**31) if seed is None else seed)


def _place(options: Options, values: dict[str, Any]) -> tuple[Any, Path]:
    """The job's name and its folder: the one that was named, or one below the folder of jobs."""
    of_file: str | None = values.pop(JOBS_DIR, None)
    if output := options["output"]:
        if options.get("jobs_dir") or options.get("job_name"):
            raise JobError("-o names the job's own folder; give it, or --jobs-dir and --job-name, not both")
        return job_name(output), output
    parent = options.get("jobs_dir") or Path(of_file or "jobs")
    name = options.get("job_name") or values.get("name")
    folder = parent / str(name) if name is not None else new_job_folder(parent)
    return name or job_name(folder), folder


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    table, _, name = key.rpartition(".")
    (values.setdefault(table, {}) if table else values)[name] = value


def _merge(values: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            values[key] = {**values[key], **value}
        else:
            values[key] = value
