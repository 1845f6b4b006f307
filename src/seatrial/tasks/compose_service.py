"""What the service `main` of a compose file asks for, key by key. A key that is not known asks for something."""

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


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


@dataclass(frozen=True, slots=True)
class Machine:
    """What task.toml and the folder say about the machine that a compose file describes once more."""

    dockerfile: bool = True
    image: str | None = None
    workdir: str = "/app"
    user: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    network: str = "public"
    healthcheck: bool = False


@dataclass(frozen=True, slots=True)
class Outside:
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
