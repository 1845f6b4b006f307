"""An end state with processes: no archive holds them, so its agent is run once more, in a sandbox that stays open."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.sandbox.api import Sandbox
from seatrial.trial.events import unobserved
from seatrial.trial.log import TrialLog
from seatrial.trial.machinery import Machinery
from seatrial.trial.rounds import rounds_of
from seatrial.trial.spec import TrialSpec
from seatrial.trial.steps import open_trial
from seatrial.trial.verification import Verification


async def run_up_to(
    spec: TrialSpec, machinery: Machinery, round_name: str | None, folder: Path, stack: AsyncExitStack
) -> tuple[Sandbox, Verification]:
    """Run the agent of a trial up to a round and take stock of it; its sandbox is open until the stack is closed.

    What the agent prints goes to `folder`. Rounds before are not judged. Raises TrialError or UsageError.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    # Keeping its end state would end the very processes.
    spec = replace(spec, options=spec.options.model_copy(update={"keep": "record"}))
    trial = await stack.enter_async_context(open_trial(spec, machinery, folder, TrialLog(spec, unobserved)))
    for round_ in rounds_of(spec.task):
        turn = trial.begin(round_)
        launch = await turn.set_up()
        async with turn.open_model() as access:
            agent_result = await turn.run_agent(launch, access)
        work = await turn.take_stock(agent_result)
        if round_.name == round_name:
            return trial.sandbox, turn.verification(agent_result, work)
    raise UsageError(f"{spec.task.id}: it has no step {round_name!r}")
