"""Which sandbox a task gets: the image, limits and network it asks for, or the reason why it cannot have them."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import HostUnsupportedError
from seatrial.model.config import EnvironmentSpec, NetworkPolicy
from seatrial.model.job import TrialOptions
from seatrial.model.record import LimitSpec
from seatrial.model.task import Task
from seatrial.sandbox.api import HOST_IMAGE, NO_NETWORK, Capabilities, Image, Limit, Network, SandboxSpec
from seatrial.sandbox.hosts import AddressPattern, parse_patterns
from seatrial.tasks.environ import resolve_variables

_MODES = {"public": "public", "no-network": "none", "allowlist": "allowlist"}
_PIDS = 4096
_PRIVATE_RANGES = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.168.0.0/16", "::/96", "fc00::/7", "fe80::/10"),
    )
)
_SHARE_OF_MEMORY = 0.75


def choose_image(task: Task, options: TrialOptions) -> Image:
    """The image to run in. Raises HostUnsupportedError for a task that needs one which cannot be made here."""
    if options.image == "host":
        return HOST_IMAGE
    if options.image != "auto":
        return Image(options.image, layers=(Path(options.image).resolve(),))
    if task.layout.dockerfile:
        raise HostUnsupportedError(
            f"{task.id} is built from {task.layout.dockerfile}, and images cannot be built yet; run it on this "
            "machine's own system with --image host, or in a root file system of yours with --image DIRECTORY"
        )
    return HOST_IMAGE


def refuse_impossible(environment: EnvironmentSpec, options: TrialOptions) -> None:
    """Raise HostUnsupportedError for what no sandbox here can give."""
    lacking = [
        what
        for what, wanted in (
            ("Windows", environment.os == "windows"),
            ("GPUs", bool(environment.gpus)),
            ("a TPU", environment.tpu is not None),
        )
        if wanted
    ]
    if lacking and (options.enforcement == "required" or environment.os == "windows"):
        raise HostUnsupportedError(
            f"the task asks for {' and '.join(lacking)}, which no sandbox here has; "
            "--allow-partial-limits runs it without (never without Windows)"
        )


def limits_asked(environment: EnvironmentSpec) -> LimitSpec:
    """The limits the task declares."""
    return LimitSpec(cpus=environment.cpus, memory_mb=environment.memory_mb, storage_mb=environment.storage_mb)


def limits_to_set(asked: LimitSpec, capabilities: Capabilities) -> LimitSpec:
    """What is asked for, and bounds on what nobody declared, as far as they can be had: the machine must survive."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY / 2**20
    usual: dict[Limit, int] = {"memory_mb": int(memory), "pids": _PIDS}
    bounds = {str(name): value for name, value in usual.items() if name in capabilities.limits}
    declared = {name: value for name, value in asked if value is not None}
    return LimitSpec(**{**bounds, **declared})


def choose_network(policy: NetworkPolicy, options: TrialOptions, capabilities: Capabilities) -> Network:
    """The network of a phase. Raises HostUnsupportedError for one the backend or the operator refuses."""
    if options.network == "none":
        policy = NetworkPolicy(mode="no-network")
    network = Network(_MODES[policy.mode], policy.allowed_hosts)  # type: ignore[arg-type]
    private = [host for host in network.hosts if _is_private(host)]
    if private and options.private_hosts == "refuse":
        raise HostUnsupportedError(
            f"the task wants to reach {', '.join(private)}, which may be services of this machine or its network; "
            "--allow-private-hosts permits that"
        )
    if network.mode in capabilities.networks:
        return network if network.mode != "none" else NO_NETWORK
    if options.enforcement == "partial" and "host" in capabilities.networks:
        return Network("host")
    raise HostUnsupportedError(
        f"the {capabilities.backend} backend has no network {network.mode!r}: "
        f"{capabilities.missing.get(network.mode, 'it cannot enforce it')}"
    )


def _is_private(host: str) -> bool:
    """Whether a pattern opens anything that is not public, be it only a part of a range."""
    (pattern,) = parse_patterns([host])
    if isinstance(pattern, AddressPattern):
        return not pattern.network.is_global or any(map(pattern.network.overlaps, _PRIVATE_RANGES))
    return f".{pattern.name}".endswith((".localhost", ".internal", ".local"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial takes place: what to make, what was asked for, and what the backend can do."""

    sandbox: SandboxSpec
    asked: LimitSpec
    capabilities: Capabilities

    @property
    def workdir(self) -> str:
        """The task's own directory."""
        return self.sandbox.workdir


def choose_place(
    task: Task, environment: EnvironmentSpec, options: TrialOptions, capabilities: Capabilities, host: Mapping[str, str]
) -> Place:
    """The sandbox for a task, or for its verifier when `environment` is the verifier's own."""
    refuse_impossible(environment, options)
    asked = limits_asked(environment)
    sandbox = SandboxSpec(
        image=choose_image(task, options),
        limits=limits_to_set(asked, capabilities),
        enforcement=options.enforcement,
        workdir=environment.workdir or task.workdir,
        env=resolve_variables(environment.env, host),
    )
    return Place(sandbox, asked, capabilities)
