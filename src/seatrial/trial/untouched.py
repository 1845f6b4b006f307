"""The environment of a round as its agent would find it, in which nobody has done anything."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from seatrial.sandbox.api import Sandbox, SandboxBackend
from seatrial.sandbox.session import open_sandbox
from seatrial.trial.entrypoint import run_entrypoint
from seatrial.trial.place import agent_network
from seatrial.trial.rounds import rounds_of
from seatrial.trial.setup import stage_round, stage_task
from seatrial.trial.verification import Verification


@asynccontextmanager
async def open_untouched(verification: Verification, backend: SandboxBackend, folder: Path) -> AsyncIterator[Sandbox]:
    """A fresh sandbox with a task laid out, up to the round that is verified; earlier ones are not worked on.

    Logs go to `folder`. Raises TrialError, as the set-up of a trial does.
    """
    spec, place = verification.spec, verification.place
    rounds = rounds_of(verification.round.task) if verification.round.step else (verification.round,)
    last = [round_.name for round_ in rounds].index(verification.round.name)
    async with open_sandbox(backend, place.sandbox) as fresh:
        await stage_task(fresh, spec, rounds[0], place)
        networks = [agent_network(round_, spec.options, place.capabilities) for round_ in rounds[: last + 1]]
        healthcheck = rounds[0].healthcheck is not None
        async with run_entrypoint(fresh, place, networks[0], folder, has_healthcheck=healthcheck) as entrypoint:
            with entrypoint.preparing():
                for round_, network in zip(rounds, networks, strict=False):
                    await stage_round(fresh, spec, round_, place, None, network)
            yield fresh
