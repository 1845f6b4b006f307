"""The environment of a round as its agent would find it, in which nobody has done anything."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from seatrial.sandbox.api import Sandbox, SandboxBackend
from seatrial.sandbox.session import open_sandbox
from seatrial.trial.place import agent_network
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.setup import open_task, stage_round
from seatrial.trial.verification import Verification


@asynccontextmanager
async def open_untouched(verification: Verification, backend: SandboxBackend, folder: Path) -> AsyncIterator[Sandbox]:
    """A fresh sandbox with a task laid out, up to the round that is verified; earlier ones are not worked on.

    Logs go to `folder`. Raises TrialError, as the set-up of a trial does.
    """
    spec, place, rounds = verification.spec, verification.place, rounds_up_to(verification)
    async with (
        open_sandbox(backend, place.sandbox) as fresh,
        open_task(fresh, spec, rounds[0], place, folder) as entrypoint,
    ):
        with entrypoint.preparing():
            for round_ in rounds:
                network = agent_network(round_, spec.options, place.capabilities)
                await stage_round(fresh, spec, round_, place, None, network)
        yield fresh


def rounds_up_to(verification: Verification) -> tuple[Round, ...]:
    """The rounds of a task up to the one that is verified."""
    rounds = rounds_of(verification.round.task) if verification.round.step else (verification.round,)
    last = [round_.name for round_ in rounds].index(verification.round.name)
    return rounds[: last + 1]
