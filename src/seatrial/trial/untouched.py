"""The environment of a round as its agent would find it, in which nobody has done anything."""

from seatrial.sandbox.api import Network, Sandbox
from seatrial.trial.place import choose_network
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.setup import stage_round, stage_task
from seatrial.trial.verification import Verification


async def furnish_untouched(verification: Verification, fresh: Sandbox) -> None:
    """Lay out a task in a fresh sandbox, up to the round that is verified; earlier ones are not worked on."""
    rounds = rounds_up_to(verification)
    await stage_task(fresh, verification.spec, rounds[0], verification.place)
    for round_ in rounds:
        await stage_round(fresh, verification.spec, round_, verification.place, None, network_of(verification, round_))


def rounds_up_to(verification: Verification) -> tuple[Round, ...]:
    """The rounds of a task up to the one that is verified."""
    rounds = rounds_of(verification.round.task) if verification.round.step else (verification.round,)
    last = [round_.name for round_ in rounds].index(verification.round.name)
    return rounds[: last + 1]


def network_of(verification: Verification, round_: Round) -> Network:
    """Whom an agent may reach in a round."""
    policy = round_.agent.network or round_.task.config.environment.network
    return choose_network(policy, verification.spec.options, verification.place.capabilities)
