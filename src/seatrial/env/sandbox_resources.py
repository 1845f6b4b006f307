"""The resources of one rollout's sandbox: what `get_sandbox_resources` says of them, taken into the settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from seatrial.env.sandbox_settings import SandboxSettings, refuse_gpus
from seatrial.errors import HookError

_LIMITS = ("cpu_cores", "memory_gb", "disk_size_gb")


def resources_of(settings: SandboxSettings) -> dict[str, Any]:
    """What an environment says for all its sandboxes; None is as the task says, or bounded by the machine."""
    return {
        **{name: getattr(settings, name) for name in _LIMITS},
        "gpu_count": settings.gpu_count,
        "gpu_type": None,
        "vm": False,
        "timeout_minutes": settings.timeout_minutes,
    }


def with_resources(settings: SandboxSettings, resources: Mapping[str, Any]) -> SandboxSettings:
    """The settings with the limits that a hook or a request names. Raises UsageError, or HookError for no table."""
    if not isinstance(resources, Mapping):
        raise HookError(f"get_sandbox_resources returned {type(resources).__name__}, expected a table of resources")
    refuse_gpus(resources.get("gpu_count") or 0)
    given = {name: resources[name] for name in _LIMITS if resources.get(name) is not None}
    return replace(settings, **given) if given else settings


def vars_of(request: Any) -> dict[str, Any]:
    """What a request for a sandbox says of resources, whichever class it is of."""
    return {name: getattr(request, name, None) for name in (*_LIMITS, "gpu_count")}
