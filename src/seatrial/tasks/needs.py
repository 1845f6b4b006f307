"""What a task asks for that no sandbox here has: it is refused with the reason before its first trial.

Everything is known when a job is planned, from task.toml, the folder's layout, and the compose file where there is one.
"""

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from seatrial.model.loaded_task import Task, TaskLayout, TaskStep
from seatrial.model.task import EnvironmentSpec, VerifierPhaseSpec
from seatrial.tasks.layout import TaskFiles, read_file
from seatrial.tasks.outline import StepOutline, TaskOutline
from seatrial.tasks.toml import TASK_TOML, is_on_windows

# The service `main` of a compose file, key by key. A key that is not known asks for something.


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXCERPT = 60
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}")
_OPTIONAL = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?-\}")
_LOGS = re.compile(r"/logs(?:/|$)|\$(?:HOST|ENV)_[A-Z_]*(?:LOGS|ARTIFACTS)_PATH$")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_IDLE = re.compile(
    r"(?:exec )?(?:sleep (?:infinity|inf|\d+[smhd]?)|tail -[fF] /dev/null|(?:/usr)?(?:/bin/)?(?:ba|da|z)?sh|cat)"
    r"|while (?:true|:); ?do sleep \d+[smhd]?; ?done"
)
_PROXIES = frozenset(f"{name}_proxy" for name in ("http", "https", "ftp", "no", "all"))
_USUAL_VARIABLES = _names("TEST_DIR PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE DEBIAN_FRONTEND TERM LANG LC_ALL")
# What every container may do, and every sandbox here.
_USUAL_CAPABILITIES = _names(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP "
    "SETUID SYS_CHROOT"
)
# Names, limits and bookkeeping: the task is the same without them, or task.toml says it.
_WITHOUT_EFFECT = _names(
    "annotations attach blkio_config container_name cpu_count cpu_percent cpu_period cpu_quota cpu_shares cpus "
    "cpuset depends_on develop expose init labels logging mem_limit mem_reservation mem_swappiness "
    "memswap_limit oom_kill_disable oom_score_adj pids_limit ports profiles pull_policy restart shm_size "
    "stdin_open stop_grace_period stop_signal tmpfs tty ulimits"
)
_BUILD_WITHOUT_EFFECT = _names("cache_from cache_to labels network no_cache platforms pull shm_size tags")
_DEPLOY_WITHOUT_EFFECT = _names("labels mode restart_policy update_config rollback_config")


class Machine(NamedTuple):
    """What task.toml and the folder say about the machine that a compose file describes once more."""

    dockerfile: bool = True
    image: str | None = None
    workdir: str = "/app"
    user: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    network: str = "public"
    healthcheck: bool = False


class Outside(NamedTuple):
    """The networks and volumes that the file itself declares."""

    networks: Mapping[str, Any]
    volumes: Mapping[str, Any]


Ask = Callable[[Any, Machine, Outside], Iterator[str]]


def quoted(text: str) -> str:
    """A stranger's text on one short line, safe to store and to print."""
    shown = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


def asks_of_service(service: Any, machine: Machine, outside: Outside) -> Iterator[str]:
    """What the agent's own service wants that `machine` does not say."""
    if service is None:
        return
    if not isinstance(service, dict):
        yield f"a service `main` that is no table ({quoted(repr(service))})"
        return
    for key, value in service.items():
        name = str(key)
        if value in (None, False, "", [], {}) or name in _WITHOUT_EFFECT or name.startswith("x-"):
            continue
        check = _CHECKS.get(name)
        if check is None:
            yield f"`{quoted(name)}`"
        else:
            yield from check(value, machine, outside)
    if "build" not in service:
        yield from _image(service.get("image"), machine)


def _image(value: Any, machine: Machine) -> Iterator[str]:
    """An image that is not built is one to fetch; beside a Dockerfile it only names what is built."""
    if value is None or machine.dockerfile or value == machine.image or _VARIABLE.fullmatch(str(value)):
        return
    yield f"the image {quoted(str(value))}, which task.toml does not name"


def _build(value: Any, machine: Machine, _: Outside) -> Iterator[str]:
    build = value if isinstance(value, dict) else {"context": value}
    context = posixpath.normpath(_VARIABLE.sub(r"$\1", str(build.get("context") or ".")))
    if context not in (".", "$CONTEXT_DIR"):
        yield f"the build context {quoted(context)}"
    dockerfile = str(build.get("dockerfile") or "Dockerfile")
    if _VARIABLE.sub(r"$\1", dockerfile) not in ("Dockerfile", "./Dockerfile", "$CONTEXT_DIR/Dockerfile"):
        yield f"the Dockerfile {quoted(dockerfile)}"
    elif not machine.dockerfile and not machine.image:
        yield "a build, though there is no Dockerfile"
    arguments = [name for name, text in _pairs(build.get("args")) if _matters(name, text, {})]
    if arguments:
        yield f"the build arguments {_listed(arguments)}"
    for key, setting in build.items():
        known = ("context", "dockerfile", "args")
        if setting and key not in known and key not in _BUILD_WITHOUT_EFFECT:
            yield f"`build.{quoted(str(key))}`"


def _command(value: Any, *_: object) -> Iterator[str]:
    if not _is_idle(value):
        yield f"the command {quoted(_joined(value))}"


def _entrypoint(value: Any, *_: object) -> Iterator[str]:
    if not _is_idle(value):
        yield f"the entrypoint {quoted(_joined(value))}"


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_idle(command: Any) -> bool:
    """Whether a command only keeps a container alive, or hands over to one that does."""
    try:
        words = [str(word) for word in command] if isinstance(command, list) else shlex.split(str(command))
        while len(words) > 2 and posixpath.basename(words[0]) in _SHELLS and re.fullmatch(r"-l?c", words[1]):
            words = shlex.split(words[2])
    except ValueError:  # a quotation mark that nothing closes
        return False
    if not words or (len(words) == 2 and posixpath.basename(words[0]) in _SHELLS and words[1] in ("-c", "-lc")):
        return True
    return _IDLE.fullmatch(" ".join(words)) is not None


def _environment(value: Any, machine: Machine, _: Outside) -> Iterator[str]:
    declared = dict(machine.env)
    names = [name for name, text in _pairs(value) if _matters(name, text, declared)]
    if names:
        yield f"the variables {_listed(names)}, which [environment.env] does not set"


def _matters(name: str, text: str | None, declared: Mapping[str, str]) -> bool:
    if name in _USUAL_VARIABLES or name.lower() in _PROXIES or text == "" or _OPTIONAL.fullmatch(text or ""):
        return False
    passed_on = text is None or "${" in text
    return not (name in declared and (passed_on or declared[name] == text))


def _pairs(value: Any) -> Iterator[tuple[str, str | None]]:
    """Variables, whichever way they are written; one without a value is taken from the host."""
    if isinstance(value, dict):
        for name, text in value.items():
            yield str(name), None if text is None else str(text)
    elif isinstance(value, list):
        for entry in map(str, value):
            name, equals, text = entry.partition("=")
            yield name, text if equals else None


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(quoted, names[:4]))
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


def _volumes(value: Any, _: Machine, outside: Outside) -> Iterator[str]:
    for entry in value if isinstance(value, list) else [value]:
        source, target, kind = _mount(entry)
        if _LOGS.match(target) or kind == "tmpfs" or not source:
            continue
        declared = outside.volumes.get(source) if kind == "volume" else None
        if kind != "volume" or (isinstance(declared, dict) and (declared.get("external") or declared.get("driver"))):
            yield f"{quoted(source)} mounted at {quoted(target)}"


def _mount(entry: Any) -> tuple[str, str, str]:
    """Source, target and kind of a volume. One that the file declares is an empty folder, as good as the image's."""
    if isinstance(entry, dict):
        source, target = (str(entry.get(name) or "") for name in ("source", "target"))
        kind = str(entry.get("type") or "bind")
    else:
        parts = _VARIABLE.sub(r"$\1", str(entry)).split(":")
        source, target = (parts[0], parts[1]) if len(parts) > 1 else ("", parts[0])
        kind = "bind" if source.startswith((".", "/", "~", "$")) else "volume"
    return _VARIABLE.sub(r"$\1", source), _VARIABLE.sub(r"$\1", target), kind


def _deploy(value: Any, *_: object) -> Iterator[str]:
    deploy = value if isinstance(value, dict) else {"?": value}
    for key, setting in deploy.items():
        if key == "resources" and isinstance(setting, dict):
            kinds = [kind for kind in setting.values() if isinstance(kind, dict)]
            if any(name not in ("cpus", "memory", "pids") for kind in kinds for name in kind):
                yield "devices such as GPUs (`deploy.resources`)"
        elif key == "replicas" and setting in (None, 1):
            continue
        elif key not in _DEPLOY_WITHOUT_EFFECT:
            yield f"`deploy.{quoted(str(key))}`"


def _networks(value: Any, machine: Machine, outside: Outside) -> Iterator[str]:
    for name in map(str, value if isinstance(value, dict | list) else [value]):
        declared = outside.networks.get(name)
        settings = declared if isinstance(declared, dict) else {}
        if settings.get("external") or (settings.get("internal") and machine.network != "no-network"):
            yield f"the network {quoted(name)}"


def has_no_network(service: Any, outside: Outside) -> bool:
    """Whether a service is alone in its network, as sandboxes are that have none."""
    if not isinstance(service, dict):
        return False
    networks = service.get("networks") or ()
    declared = [outside.networks.get(str(name)) for name in (networks if isinstance(networks, dict | list) else ())]
    inner = [isinstance(each, dict) and each.get("internal") is True and not each.get("external") for each in declared]
    return service.get("network_mode") == "none" or (bool(inner) and all(inner))


def _network_mode(value: Any, machine: Machine, _: Outside) -> Iterator[str]:
    closed = value == "none" and machine.network == "no-network"
    if not closed and value not in ("bridge", "default"):
        yield f"the network mode {quoted(str(value))}"


def _capabilities(value: Any, *_: object) -> Iterator[str]:
    names = [str(name).upper().removeprefix("CAP_") for name in (value if isinstance(value, list) else [value])]
    if unusual := [name for name in names if name not in _USUAL_CAPABILITIES]:
        yield f"the capabilities {_listed(unusual)}"


def _security(value: Any, *_: object) -> Iterator[str]:
    for option in map(str, value if isinstance(value, list) else [value]):
        if not option.startswith(("label", "apparmor")):
            yield f"the security option {quoted(option)}"


def _user(value: Any, machine: Machine, _: Outside) -> Iterator[str]:
    if str(value) not in (machine.user, "root", "0", "0:0", "root:root"):
        yield f"the user {quoted(str(value))}, which [agent] does not name"


def _workdir(value: Any, machine: Machine, _: Outside) -> Iterator[str]:
    if posixpath.normpath(str(value)) != posixpath.normpath(machine.workdir):
        yield f"the directory {quoted(str(value))} instead of {quoted(machine.workdir)}"


def _healthcheck(value: Any, machine: Machine, _: Outside) -> Iterator[str]:
    off = isinstance(value, dict) and (value.get("disable") is True or value.get("test") in (None, "NONE", ["NONE"]))
    if not off and not machine.healthcheck:
        yield "a healthcheck, which [environment.healthcheck] does not have"


def _platform(value: Any, *_: object) -> Iterator[str]:
    if value != "linux/amd64":
        yield f"the platform {quoted(str(value))}"


def _scale(value: Any, *_: object) -> Iterator[str]:
    if value != 1:
        yield f"{quoted(str(value))} containers of `main`"


def _nothing(*_: object) -> Iterator[str]:
    """What another check looks at."""
    yield from ()


_CHECKS: Mapping[str, Ask] = {
    "build": _build,
    "cap_add": _capabilities,
    "command": _command,
    "deploy": _deploy,
    "entrypoint": _entrypoint,
    "environment": _environment,
    "healthcheck": _healthcheck,
    "image": _nothing,
    "network_mode": _network_mode,
    "networks": _networks,
    "platform": _platform,
    "scale": _scale,
    "security_opt": _security,
    "user": _user,
    "volumes": _volumes,
    "working_dir": _workdir,
}


# Compose files. Most repeat the Dockerfile in one service `main`; whatever else one asks for is named, so that the task
# is refused with the reason instead of being run without half of its machine.

MAX_COMPOSE_BYTES = 2**18
_MAIN = "main"
_MAX_ASKS = 8
_KEYS_WITHOUT_EFFECT = frozenset({"version", "name", "services", "networks", "volumes", "configs", "secrets"})


class _Compose(NamedTuple):
    """A compose file with one mapping per section, whatever the file has there."""

    services: dict[str, Any]
    outside: Outside
    sections: tuple[str, ...]


@lru_cache(maxsize=256)
def compose_asks(content: bytes, machine: Machine) -> tuple[str, ...]:
    """What the file wants that `machine` does not say, one phrase each; empty when it only repeats it.

    Thousands of tasks share a few such files, so the answers are kept. Never raises.
    """
    try:
        compose = _read(content)
    except (ValueError, RecursionError) as error:
        return (f"a compose file that cannot be read ({quoted(str(error))})",)
    asks = list(dict.fromkeys(_asks(compose, machine)))
    more = len(asks) - _MAX_ASKS
    return (*asks[:_MAX_ASKS], f"{more} more") if more > 0 else tuple(asks)


@lru_cache(maxsize=256)
def closes_network(content: bytes) -> bool:
    """Whether the file leaves the service `main` without a network, which needs no engine. Never raises."""
    if b"network_mode" not in content and b"internal" not in content:
        return False
    try:
        compose = _read(content)
    except (ValueError, RecursionError):
        return False
    return has_no_network(compose.services.get(_MAIN), compose.outside)


def is_meant(file: str, *, has_image: bool) -> bool:
    """Whether a compose file describes a machine. Beside a Dockerfile or an image, one of another name is data."""
    return file.endswith("/docker-compose.yaml") or not has_image


def _read(content: bytes) -> _Compose:
    from seatrial.untrusted.yaml import read_documents  # noqa: PLC0415 - slow to import, and few tasks have such a file

    documents = read_documents(content.decode("utf-8").removeprefix("\ufeff"))
    if len(documents) > 1:
        raise ValueError(f"{len(documents)} documents in one file")
    file = documents[0] if documents else None
    sections = _table(file, "the file")
    services, networks, volumes = (_table(sections.get(name), name) for name in ("services", "networks", "volumes"))
    return _Compose(services, Outside(networks, volumes), tuple(sections))


def _table(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return {str(key): below for key, below in value.items()}
    raise ValueError(f"{name}: found {type(value).__name__}, expected a table")


def _asks(compose: _Compose, machine: Machine) -> Iterator[str]:
    others = [name for name, service in compose.services.items() if name != _MAIN and _is_started(service)]
    if others:
        yield f"the service{'s' if len(others) > 1 else ''} {', '.join(map(quoted, others[:_MAX_ASKS]))}"
    for name in compose.sections:
        if name not in _KEYS_WITHOUT_EFFECT and not name.startswith("x-"):
            yield f"`{quoted(name)}`"
    yield from asks_of_service(compose.services.get(_MAIN), machine, compose.outside)


def _is_started(service: Any) -> bool:
    """Services with a profile are started only by whoever asks for it, which no task runner does."""
    return not (isinstance(service, dict) and service.get("profiles"))


# The needs of a task.

NeedCode = Literal["needs-windows", "needs-gpu", "needs-tpu", "needs-compose", "needs-environment"]

REASONS: dict[NeedCode, str] = {
    "needs-windows": "no sandbox here has Windows",
    "needs-gpu": "no sandbox here has GPUs",
    "needs-tpu": "no sandbox here has TPUs",
    "needs-compose": "a compose file asks for more than the Dockerfile gives",
    "needs-environment": "another kind of machine is needed",
}
"""Why a task is left out, in the words by which such tasks are counted."""

_FIXES: dict[NeedCode, str] = {
    "needs-windows": "run it where there are Windows containers",
    "needs-gpu": "run it elsewhere, or without them with --allow-partial-limits",
    "needs-tpu": "run it elsewhere, or without them with --allow-partial-limits",
    "needs-compose": "put it into the Dockerfile or task.toml, or run without it with --force",
    "needs-environment": "run it elsewhere, or in an ordinary sandbox with --force",
}
_ORDINARY_TYPES = frozenset({"docker", "container", "dockerfile", "image", "linux", "sandbox"})


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that cannot be had; `code` is stable, `what` is for the message."""

    code: NeedCode
    what: str
    file: str = "task.toml"
    key: str | None = None

    @property
    def fix(self) -> str:
        return _FIXES[self.code]

    def __str__(self) -> str:
        return f"{self.what} ({self.key or self.file})"


def needs_of(task: Task | TaskOutline, files: TaskFiles | None = None) -> tuple[Need, ...]:
    """Everything a task asks for and cannot get here, in a stable order. Never raises on its content.

    Whoever has just listed the folder can say which `files` it holds, and learns what was read of them.
    """
    config = task.config
    found = [*_of_machine(config.environment, "environment", config.extra), *_of_workdir(task)]
    if task.layout.compose_file:
        found += _of_compose(task, task.layout.compose_file, _agent_machine(task), files)
    found += _of_services(task)
    for key, phase, layout in _phases(task):
        found += _of_verifier(task, key, phase, layout, files)
    return tuple(dict.fromkeys(found))


def _of_machine(environment: EnvironmentSpec, key: str, extra: dict[str, Any]) -> Iterator[Need]:
    if environment.os == "windows":
        yield Need("needs-windows", "Windows", key=f"{key}.os")
    if environment.gpus:
        yield Need("needs-gpu", "a GPU" if environment.gpus == 1 else f"{environment.gpus} GPUs", key=f"{key}.gpus")
    if environment.tpu:
        yield Need("needs-tpu", f"a TPU of type {quoted(environment.tpu.type)}", key=f"{key}.tpu")
    kind = extra.get(f"{key}.type")
    if kind is not None and str(kind).lower() not in _ORDINARY_TYPES:
        yield Need("needs-environment", f"an environment of type {quoted(str(kind))}", key=f"{key}.type")
    if backend := extra.get(f"{key}.vm_backend"):
        yield Need("needs-environment", f"a virtual machine by {quoted(str(backend))}", key=f"{key}.vm_backend")
    nodes = extra.get(f"{key}.nodes")
    if (len(nodes) if isinstance(nodes, list | dict) else nodes) not in (None, 0, 1):
        yield Need("needs-environment", "several machines", key=f"{key}.nodes")


def _of_workdir(task: Task | TaskOutline) -> Iterator[Need]:
    environment = task.config.environment
    if environment.os != "windows" and is_on_windows(task.workdir):
        declared, file = environment.workdir is not None, task.layout.dockerfile or TASK_TOML
        what = f"Windows, for the folder {quoted(task.workdir)}"
        yield Need("needs-windows", what, TASK_TOML if declared else file, "environment.workdir" if declared else None)


def _of_compose(task: Task | TaskOutline, file: str, machine: Machine, files: TaskFiles | None) -> list[Need]:
    if not is_meant(file, has_image=machine.dockerfile or machine.image is not None):
        return []
    try:
        content, executable = read_file(f"{task.root}/{file}", MAX_COMPOSE_BYTES)
    except ValueError as error:
        return [Need("needs-compose", f"a compose file that cannot be read: {error}", file)]
    if files is not None:
        files.read[file] = executable, sha256(content).digest()
    return [Need("needs-compose", ask, file) for ask in compose_asks(content, machine)]


def _agent_machine(task: Task | TaskOutline) -> Machine:
    config = task.config
    environment, user = config.environment, config.agent.user
    return Machine(
        dockerfile=task.layout.dockerfile is not None,
        image=environment.docker_image,
        workdir=task.workdir,
        user=None if user is None else str(user),
        env=tuple(sorted(environment.env.items())),
        network=(config.agent.network or environment.network).mode,
        healthcheck=environment.healthcheck is not None,
    )


def _of_services(task: Task | TaskOutline) -> Iterator[Need]:
    """Hooks and artifacts of services that no compose file here brings up."""
    config = task.config
    phases = [("", config.verifier, config.artifacts)]
    phases += [(f"steps[{n}].", step.verifier, step.artifacts) for n, step in enumerate(config.steps)]
    for prefix, verifier, artifacts in phases:
        named: list[tuple[str, str | None]] = [(f"{prefix}verifier.collect", hook.service) for hook in verifier.collect]
        named += [(f"{prefix}artifacts", artifact.service) for artifact in artifacts]
        for key, service in named:
            if service not in (None, "main"):
                yield Need("needs-compose", f"the service {quoted(str(service))}", key=key)


def _phases(task: Task | TaskOutline) -> Iterator[tuple[str, VerifierPhaseSpec, TaskLayout]]:
    if not task.steps:
        yield "verifier.environment", task.config.verifier, task.layout
    steps: Sequence[TaskStep | StepOutline] = task.steps
    for index, step in enumerate(steps):
        yield f"steps[{index}].verifier.environment", step.spec.verifier, step.layout


def _of_verifier(
    task: Task | TaskOutline, key: str, phase: VerifierPhaseSpec, layout: TaskLayout, files: TaskFiles | None
) -> Iterator[Need]:
    """What a separate verifier asks for; one that shares the agent's sandbox has no machine of its own."""
    shared = task.config.verifier
    if "separate" not in (phase.environment_mode, shared.environment_mode):
        return
    environment = phase.environment or shared.environment
    if environment:
        yield from _of_machine(environment, key, task.config.extra)
    if layout.verifier_compose_file:
        machine = Machine(
            dockerfile=layout.verifier_dockerfile is not None,
            image=environment.docker_image if environment else None,
            env=tuple(sorted(environment.env.items())) if environment else (),
            network=(phase.network or (environment or task.config.environment).network).mode,
            user=None if phase.user is None else str(phase.user),
        )
        yield from _of_compose(task, layout.verifier_compose_file, machine, files)
