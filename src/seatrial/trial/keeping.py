"""Whether the end state of a round is kept, and what the record says of it: where that is cheap, always, or never."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seatrial.descriptors import raise_if_short
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.record import KeptState
from seatrial.sandbox.api import Sandbox
from seatrial.tasks.allowed import allowed_variables
from seatrial.tasks.environ import templates_in
from seatrial.trial.snapshot import ANYTHING, KeepBounds, keep_snapshot, remove_snapshot

# Packing and compressing as much takes about a tenth of a second.
_CHEAP_RAW, _CHEAP_PACKED = 32 * 2**20, 8 * 2**20
_NOT_WANTED = KeptState(kept=False, reason="the run said --keep record")


@dataclass(frozen=True, slots=True)
class KeepWish:
    """What a run wants kept. Where that is decided by the cost, nothing with one of the secrets in it is."""

    keep: Literal["auto", "record", "snapshot"]
    secrets: tuple[str, ...] = ()

    @property
    def bounds(self) -> KeepBounds:
        """How much is kept at most."""
        if self.keep == "snapshot":
            return ANYTHING
        return KeepBounds(_CHEAP_RAW, _CHEAP_PACKED, self.secrets)


def keep_wish(options: TrialOptions, agent: AgentOptions, host: Mapping[str, str] = os.environ) -> KeepWish:
    """What a run wants kept. One that asks its verifiers several times needs it for a while, if that is cheap.

    Secrets are what task and agent were given of this machine's variables, whose values are stored nowhere.
    """
    needed = options.keep == "record" and options.verify_repeats > 1
    given = {name: host[name] for name, _ in templates_in(agent.env) if name in host}
    secrets = (allowed_variables(options.allow_env, host) | given).values()
    return KeepWish("auto" if needed else options.keep, tuple(secrets))


def forget_state(folder: Path) -> KeptState:
    """Remove the end state that a folder has, which nobody wanted for longer."""
    remove_snapshot(folder)
    return _NOT_WANTED


async def keep_state(sandbox: Sandbox, folder: Path, wish: KeepWish, processes: tuple[str, ...]) -> KeptState:
    """Keep the end state of a sandbox, whose processes are ended first; or say why that cannot be."""
    if wish.keep == "record":
        return _NOT_WANTED
    try:
        if processes:
            await sandbox.kill_all()
        size = await keep_snapshot(sandbox, folder, wish.bounds)
    except (SandboxError, HostUnsupportedError, OSError) as error:
        raise_if_short(error)
        hint = "; --keep snapshot keeps it" if wish.keep == "auto" and isinstance(error, ContentError) else ""
        return KeptState(kept=False, reason=f"{error}{hint}", processes=processes)
    return KeptState(kept=True, size=size, processes=processes)
