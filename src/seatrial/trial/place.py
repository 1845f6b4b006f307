"""Which sandbox a task gets: the image, limits and network it asks for, or the reason why it cannot have them.

`find_place` asks the backend and resolves the image; all else is a choice from values. `steps.py` makes the sandbox.
Separate verifiers get theirs by the same rules.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seatrial.agents.files import pack_agent_files
from seatrial.errors import HostUnsupportedError
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.resolver import ImageOrigin, ResolvedImage
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import LimitSpec
from seatrial.model.task import EnvironmentSpec, NetworkPolicy
from seatrial.sandbox.api import NO_NETWORK, Capabilities, Limit, Network, NetworkMode, SandboxSpec
from seatrial.sandbox.division import DOT_ENTRIES
from seatrial.sandbox.hosts import AddressPattern, parse_patterns
from seatrial.sandbox.trust import AGENT_CA, ca_variables
from seatrial.tasks.needs import Need, needs_of
from seatrial.tasks.variables import task_variables
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.verify.facts import system_folders

_MODES: dict[str, NetworkMode] = {"public": "public", "no-network": "none", "allowlist": "allowlist"}
_PIDS = 4096
_PRIVATE_RANGES = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.168.0.0/16", "::/96", "fc00::/7", "fe80::/10"),
    )
)
_SHARE_OF_MEMORY = 0.75
AS_DECLARED = TrialOptions()


def image_policy(options: TrialOptions) -> ImagePolicy:
    return ImagePolicy(options.image, options.image_map, options.image_fallback, options.build)


def agent_setup(agent: AgentOptions) -> Setup | None:
    """How an agent gets into its image; None when it does not. For a command, its files are there already."""
    command, files, layer = agent.setup or None, agent.files, agent.layer or agent.recipe
    if command is None or not files:
        return Setup(command, layer=layer) if command or layer else None
    named = tuple(f"{each.target} {each.digest}" for each in files)
    return Setup(command, named, lambda: pack_agent_files(files), layer)


def agent_image(task: Task, setup: Setup | None = None) -> ImageRequest:
    """The image that a task asks for, with an agent set up in it."""
    environment, dockerfile = task.config.environment, task.layout.dockerfile
    return ImageRequest(
        reference=environment.docker_image,
        dockerfile=task.root / dockerfile if dockerfile else None,
        build_timeout_sec=environment.build_timeout_sec,
        setup=setup,
    )


def verifier_image(round_: Round) -> ImageRequest | None:
    """The image that a separate verifier has for itself, with its tests in it; None when it has none."""
    own, shared = round_.verifier.environment, round_.task.config.verifier.environment
    dockerfile = round_.layout.verifier_dockerfile
    if own and own.docker_image:
        return ImageRequest(own.docker_image)
    if shared and shared.docker_image and not (dockerfile and dockerfile.startswith("steps/")):
        return ImageRequest(shared.docker_image)
    if dockerfile is None:
        return None
    seconds = (own or shared or round_.task.config.environment).build_timeout_sec
    return ImageRequest(dockerfile=round_.task.root / dockerfile, build_timeout_sec=seconds)


def unmet_needs(needs: Iterable[Need], options: TrialOptions) -> list[Need]:
    """The needs of a task that a run insists on; it may do without all of them but Windows."""
    if options.unfit == "run":
        return [need for need in needs if need.code == "needs-windows"]
    if options.enforcement == "partial":
        return [need for need in needs if need.code not in ("needs-gpu", "needs-tpu")]
    return list(needs)


def refuse_impossible(task: Task, options: TrialOptions) -> None:
    """Raise HostUnsupportedError for what a task asks for and no sandbox here can give."""
    if unmet := unmet_needs(needs_of(task), options):
        raise HostUnsupportedError(
            f"the task asks for what no sandbox here has: {'; '.join(map(str, unmet))}; "
            f"{'; '.join(dict.fromkeys(need.fix for need in unmet))}"
        )


def limits_asked(environment: EnvironmentSpec, options: TrialOptions) -> LimitSpec:
    """The limits that the run asks for, and where it asks for none, those the task declares."""
    return LimitSpec(
        cpus=options.cpus or environment.cpus,
        memory_mb=options.memory_mb or environment.memory_mb,
        storage_mb=options.storage_mb or environment.storage_mb,
    )


def limits_to_set(asked: LimitSpec, capabilities: Capabilities) -> LimitSpec:
    """What is asked for, and bounds on what nobody declared, as far as they can be had: the machine must survive."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY / 2**20
    usual: dict[Limit, int] = {"memory_mb": int(memory), "pids": _PIDS}
    bounds = {str(name): value for name, value in usual.items() if name in capabilities.limits}
    declared = {name: value for name, value in asked if value is not None}
    return LimitSpec(**{**bounds, **declared})


def network_mode(policy: NetworkPolicy, options: TrialOptions) -> NetworkMode:
    """What a backend has to be able to do for a policy."""
    return "none" if options.network == "none" else _MODES[policy.mode]


def choose_network(policy: NetworkPolicy, options: TrialOptions, capabilities: Capabilities) -> Network:
    """The network of a phase. Raises HostUnsupportedError for one the backend or the operator refuses."""
    if options.network == "none":
        policy = NetworkPolicy(mode="no-network")
    network = Network(network_mode(policy, options), policy.allowed_hosts, options.proxy)
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


def agent_network(round_: Round, options: TrialOptions, capabilities: Capabilities) -> Network:
    """The network of a round's agent and of what is made ready for it. Raises HostUnsupportedError as above."""
    policy = round_.agent.network or round_.task.config.environment.network
    return choose_network(policy, options, capabilities)


def _is_private(host: str) -> bool:
    """Whether a pattern opens anything that is not public, be it only a part of a range."""
    (pattern,) = parse_patterns([host])
    if isinstance(pattern, AddressPattern):
        return not pattern.network.is_global or any(map(pattern.network.overlaps, _PRIVATE_RANGES))
    return f".{pattern.name}".endswith((".localhost", ".internal", ".local"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial takes place: what to make, what was asked for, what the backend can do, and whence the image."""

    sandbox: SandboxSpec
    asked: LimitSpec
    capabilities: Capabilities
    image_from: ImageOrigin

    @property
    def workdir(self) -> str:
        return self.sandbox.workdir


async def find_place(spec: TrialSpec, machinery: Machinery) -> Place:
    """The sandbox of a trial, its image resolved. Raises TrialError or UsageError for one that cannot be had here."""
    capabilities = await machinery.backend.probe()
    refuse_impossible(spec.task, spec.options)
    image = await machinery.images.resolve(agent_image(spec.task, agent_setup(spec.agent)), image_policy(spec.options))
    return choose_place(spec.task, spec.task.config.environment, image, spec.options, capabilities)


def choose_place(
    task: Task,
    environment: EnvironmentSpec,
    image: ResolvedImage,
    options: TrialOptions,
    capabilities: Capabilities,
) -> Place:
    """The sandbox for a task, or for its verifier when `environment` is the verifier's own, whose limits stay."""
    asked = limits_asked(environment, options if environment is task.config.environment else AS_DECLARED)
    workdir = environment.workdir or _own_workdir(image) or task.workdir
    sandbox = SandboxSpec(
        image=image.image,
        limits=limits_to_set(asked, capabilities),
        enforcement=options.enforcement,
        workdir=workdir,
        env={**trusted(options, AGENT_CA), **task_variables(environment.env, options.allow_env)},
        system_folders=(*system_folders(image.image, workdir), *_homes(task, image)),
    )
    return Place(sandbox, asked, capabilities, image.how)


def trusted(options: TrialOptions, place: str) -> Mapping[str, str]:
    """The variables that lead to the user's certificates at a place inside; none where none are given."""
    if options.ca_file is None:
        return {}
    return ca_variables(options.ca_file if options.backend == "local" else place)  # local has this machine's own paths


def _homes(task: Task, image: ResolvedImage) -> tuple[str, ...]:
    """The settings of whoever runs a verifier and is not root; homes are where they usually are."""
    users = {round_.verifier_user or image.image.config.user for round_ in rounds_of(task)}
    names = sorted(user for user in users if isinstance(user, str) and user.isidentifier() and user != "root")
    return tuple(f"/home/{name}{DOT_ENTRIES}" for name in names)


def _own_workdir(image: ResolvedImage) -> str | None:
    """Where an image starts its commands; / is what one says that does not care."""
    workdir = image.image.config.workdir
    return None if workdir in (None, "/") else workdir
