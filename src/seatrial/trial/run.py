"""One trial, from a task to a record: the whole product on one page.

The task's image becomes a sandbox, with the task's files in it. The agent works there, and what it left is listed
before anything else touches it. The verifier grades that where the agent cannot reach it, and its verdict becomes an
evaluation. A task with steps has one such round for each of them. `steps.py` has the steps.
"""

from pathlib import Path

from seatrial.descriptors import is_shortage, shortage
from seatrial.errors import SandboxError, TrialError, UsageError
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.events import unobserved
from seatrial.model.record import TrialRecord
from seatrial.trial.events import Observer
from seatrial.trial.log import TrialLog
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.steps import OpenTrial, keep_trajectories, open_trial


async def run_trial(spec: TrialSpec, machinery: Machinery, folder: Path, observe: Observer = unobserved) -> TrialRecord:
    """Run one trial; logs and files go into `folder`, whose record is returned and not yet stored.

    When the machinery fails, the record says so instead of scoring. Only cancellation and our own bugs raise.
    """
    log = TrialLog(spec, observe)
    try:
        async with open_trial(spec, machinery, folder, log) as trial:
            for round_ in rounds_of(spec.task):
                evaluation = await _play(trial, round_)
                if not round_.is_good_enough(evaluation):
                    break
            await trial.complete()
    except (TrialError, UsageError) as error:
        log.fail(error)
    except OSError as error:
        if not is_shortage(error):
            raise
        log.fail(SandboxError(shortage()))
    await keep_trajectories(log, folder)
    return log.record()


async def _play(trial: OpenTrial, round_: Round) -> EvaluationResult:
    """One round: the agent's turn, then the verifier's."""
    turn = trial.begin(round_)
    launch = await turn.set_up()
    async with turn.open_model() as access:
        agent_result = await turn.run_agent(launch, access)
    work = await turn.take_stock(agent_result)
    judgement = await turn.verify(agent_result, work)
    return turn.score(judgement, work)
