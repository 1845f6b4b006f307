"""Whose word a stored job is: one that this user did not make here is resumed only if the user says so."""

import shlex
from collections.abc import Iterator

from seatrial.errors import JobError
from seatrial.model.job import (
    AgentOptions,
    JobSpec,
    RunOptions,
)
from seatrial.store.job_store import JobStore
from seatrial.tasks.variables import templates_in


def require_own(store: JobStore, command: str = "resume") -> None:
    """Raise JobError that lists what the job would do, unless this user made it on this machine.

    `command` is the one by which the user can say that all of that is wanted.
    """
    if store.is_own:
        return
    said = "\n".join(f"  {line}" for line in describe(store.file.spec))
    again = shlex.join(("seatrial", command, str(store.path)))
    raise JobError(
        f"{store.path}: was not made by you on this machine, or was changed since by something else. It says:\n{said}\n"
        f"If you want all of that, say so once: `{again} --trust-job`. Jobs of an older Seatrial "
        "need it too."
    )


def describe(spec: JobSpec) -> list[str]:
    """What a job does to this machine and with what the user has, in plain words; quoted, since it may be anything."""
    return [
        *_place(spec),
        *_engine(spec.run),
        *_model(spec),
        *(line for agent in spec.agents for line in _agent(agent)),
    ]


def _place(spec: JobSpec) -> Iterator[str]:
    trial = spec.trial
    alone = ", WITHOUT a sandbox: every command runs on this machine as you" if trial.backend == "local" else ""
    yield f"backend {trial.backend!r}{alone}"
    yield f"tasks are read from {_listed(spec.tasks)}"
    if trial.image != "auto":
        yield f"all tasks run in the image or folder {trial.image!r}"
    for name, image in trial.image_map.items():
        yield f"{image!r} is the image or folder in place of {name!r}"
    if trial.allow_env:
        yield f"tasks get your variables {_listed(trial.allow_env)}"
    if trial.ca_file:
        yield f"sandboxes and model calls trust the certificates in {trial.ca_file!r}"
    if trial.proxy == "host":
        yield "sandboxes and builds reach the network through your proxy"
    if trial.private_hosts == "allow":
        yield "tasks may reach services of this machine and its network"
    if trial.enforcement == "partial":
        yield "limits and networks that cannot be enforced here are left out"


def _engine(run: RunOptions) -> Iterator[str]:
    if run.engine != "local":
        where = f" at {run.address!r}, with your keys" if run.address else ""
        yield f"trials run on the engine {run.engine!r}{where}"


def _model(spec: JobSpec) -> Iterator[str]:
    if spec.model.upstream is not None:
        yield f"model calls, with your key, go to the upstream {spec.model.upstream!r}"
    if spec.model.prices is not None:
        yield f"prices are read from {spec.model.prices!r}"


def _agent(agent: AgentOptions) -> Iterator[str]:
    for what, command in (("runs", agent.command), ("is set up by", agent.setup)):
        if command is not None:
            yield f"the agent {agent.title!r} {what} {command!r}"
    if agent.preset is not None:
        yield f"the agent {agent.title!r} runs {agent.preset.get('command')!r}"
    for files in agent.files:
        yield f"the agent {agent.title!r} gets the files in {files.source!r}"
    if agent.recipe is not None:
        packages = _listed([*agent.recipe.npm, *agent.recipe.pip])
        yield f"the agent {agent.title!r} is baked from the packages {packages}"
    if agent.layer is not None:
        yield f"the agent {agent.title!r} gets the layer in {agent.layer.source!r}"
    if taken := sorted({name for name, _ in templates_in(agent.env)}):
        yield f"the agent {agent.title!r} gets your variables {_listed(taken)}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(repr, names))
