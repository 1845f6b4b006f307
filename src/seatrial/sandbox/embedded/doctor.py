"""Whether embedded sandboxes work on this machine, found out by making one; and clearing away what killed runs left."""

import os
import platform
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from seatrial.errors import HostUnsupportedError, SandboxError, SeatrialError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Sandbox, SandboxSpec, open_sandbox, run_shell
from seatrial.sandbox.cgroups import BASE, Hierarchy
from seatrial.sandbox.doctor import HostFinding, expect, try_sandbox, try_step
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.runs import SANDBOXES, Cleared, abandoned, look_again, state_root


async def examine_embedded(root: Path | None = None) -> AsyncIterator[HostFinding]:
    """Every step, one finding after the other. What nothing can work without ends it early."""
    yield _kernel()
    async with AsyncExitStack() as stack:
        backend = EmbeddedBackend(root=root)
        try:
            await stack.enter_async_context(backend)
        except (SeatrialError, OSError) as error:
            detail, _, fix = str(error).partition("; ")
            yield HostFinding("namespaces", "fails", detail, fix or "use containers instead (-e docker, -e podman)")
            return
        capabilities = await backend.probe()
        yield HostFinding("namespaces", "works", f"the spawner runs in mode {capabilities.mode}")
        try:
            sandbox = await stack.enter_async_context(open_sandbox(backend, SandboxSpec()))
        except (SeatrialError, OSError) as error:
            yield HostFinding("sandbox", "fails", str(error), _overlay_fix())
            return
        yield HostFinding("sandbox", "works", "a root of this machine's own system directories is up")
        async for finding in try_sandbox(sandbox):
            yield finding
        yield await _try_system_folders(sandbox)
        for limit in LimitSpec.model_fields:
            yield await _try_limit(backend, limit, capabilities.missing)
        for thing in ("userns", "many_users"):
            if thing in capabilities.missing:
                detail, _, fix = capabilities.missing[thing].partition("; ")
                yield HostFinding(thing, "missing", detail, fix)


def _kernel() -> HostFinding:
    release = platform.release()
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if platform.system() != "Linux" or version < (5, 12):
        return HostFinding("kernel", "fails", f"{platform.system()} {release}", "use Linux 5.12 or later, or Docker")
    return HostFinding("kernel", "works", f"Linux {release} on {platform.machine()}, user id {os.getuid()}")


async def _try_system_folders(sandbox: Sandbox) -> HostFinding:
    """Whether an agent can install something, as it can in a container."""
    script = "for folder in /usr/local/bin /etc /opt; do touch $folder/doctor 2>/dev/null || printf '%s ' $folder; done"
    closed = (await run_shell(sandbox, script)).stdout.decode(errors="replace").split()
    if not closed:
        return HostFinding("system folders", "works", "/usr, /etc and /opt take writes, which stay in the sandbox")
    reason = "something is mounted in them, or this kernel lays no overlay over them in a user namespace"
    fix = "run as root, or in an image of its own (--image) instead of this machine's system"
    return HostFinding("system folders", "missing", f"{', '.join(closed)} are read-only in sandboxes: {reason}", fix)


async def _try_limit(backend: EmbeddedBackend, limit: str, missing: Mapping[str, str]) -> HostFinding:
    step = f"limit {limit}"
    if limit in missing:
        detail, _, fix = missing[limit].partition("; ")
        return HostFinding(step, "missing", detail, fix)
    spec = SandboxSpec(limits=LimitSpec.model_validate({limit: 64}))

    async def attempt() -> str:
        async with open_sandbox(backend, spec) as sandbox:
            result = await run_shell(sandbox, "true")
            return expect(result.exit_code == 0, "enforced")

    return await try_step(step, attempt())


def _overlay_fix() -> str:
    return (
        "set SEATRIAL_STATE_DIR to a directory on ext4, xfs, btrfs or tmpfs: overlay cannot write to every file system"
    )


# What killed runs left: directories with files and mounts, and control groups.


async def clear_sandboxes() -> Cleared:
    """The directories of dead runs, and control groups, also of runs whose directory is gone already."""
    root, hierarchy = state_root(), Hierarchy.here()
    dead = list(abandoned(root, SANDBOXES))
    groups = _groups(hierarchy)
    orphans = orphans_among(groups, root)
    with suppress(HostUnsupportedError):
        async with EmbeddedBackend():  # entering clears away what is left of dead runs
            pass
    for run in orphans:
        with suppress(SandboxError):
            hierarchy.sweep(run)
    of_dead = [group for run in (*(path.name for path in dead), *orphans) for group in groups.get(run, ())]
    return look_again([*dead, *of_dead])


def orphans_among(groups: Mapping[str, list[Path]], root: Path) -> list[str]:
    """The dead runs of this user whose directory is gone, by the control groups of all runs on this machine."""
    return [run for run in groups if not (root / run).exists() and _is_left(run, groups[run])]


def _groups(hierarchy: Hierarchy) -> dict[str, list[Path]]:
    """The control groups of each run, in every hierarchy and wherever it was started."""
    found: dict[str, list[Path]] = {}
    for mount in hierarchy.mounts:
        for top, children, _ in os.walk(mount.parents[-1]):
            if Path(top).name == BASE:
                for run in children:
                    found.setdefault(run, []).append(Path(top, run))
    return found


def _is_left(run: str, groups: Iterable[Path]) -> bool:
    """Whether a run is ours and orphaned. One whose groups go while we look is not: somebody clears them away."""
    try:
        return _is_ours(groups) and _is_orphaned(run, groups)
    except OSError:
        return False


def _is_ours(groups: Iterable[Path]) -> bool:
    """Whether we may remove these groups; those of other users are theirs to clear away."""
    return os.geteuid() == 0 or all(group.stat().st_uid == os.geteuid() for group in groups)


def _is_orphaned(run: str, groups: Iterable[Path]) -> bool:
    """Whether a run without a directory is dead: its process is not there, and no process is in its groups."""
    pid = run.removeprefix(SANDBOXES).partition("-")[0]
    if not run.startswith(SANDBOXES) or not pid.isdigit() or Path(f"/proc/{pid}").exists():
        return False
    files = [Path(top, "cgroup.procs") for group in groups for top, _, _ in os.walk(group)]
    return not any(file.read_text().strip() for file in files)
