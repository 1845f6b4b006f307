"""One trial, from a task to a record: the whole product on one page.

The task's sandbox is made and furnished; the agent works in it; what it did is taken stock of; the verifier judges
it where the agent cannot reach; the verdict is scored. A task with steps does so once per step.
"""

import os
from contextlib import AsyncExitStack
from pathlib import Path

from seatrial.agents.api import AgentContext
from seatrial.errors import TrialError, UsageError
from seatrial.model.record import FileChanges, SandboxRef, TrialRecord
from seatrial.sandbox.api import Sandbox, SandboxBackend
from seatrial.sandbox.session import open_sandbox
from seatrial.trial.events import Observer, unobserved
from seatrial.trial.judge import Court, score, verify
from seatrial.trial.log import TrialLog
from seatrial.trial.place import Place, choose_network, choose_place
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.setup import stage_round, stage_task
from seatrial.trial.snapshot import keep_snapshot
from seatrial.trial.spec import TrialSpec
from seatrial.trial.work import DID_NOTHING, merge_changes, run_agent, take_stock, write_changes
from seatrial.verify.fetch import list_files


async def run_trial(
    spec: TrialSpec, backend: SandboxBackend, folder: Path, observe: Observer = unobserved
) -> TrialRecord:
    """Run one trial; logs and files go into `folder`, whose record is returned and not yet stored.

    When the machinery fails, the record says so instead of scoring. Only cancellation and our own bugs raise.
    """
    log = TrialLog(spec, observe)
    try:
        await _live(spec, backend, folder, log)
    except (TrialError, UsageError) as error:
        log.fail(error)
    return log.record()


async def _live(spec: TrialSpec, backend: SandboxBackend, folder: Path, log: TrialLog) -> None:
    rounds = rounds_of(spec.task)
    changes: list[FileChanges] = []
    async with AsyncExitStack() as stack:
        with log.phase("setup"):
            place = await _choose(spec, backend, log)
            sandbox = await stack.enter_async_context(open_sandbox(backend, place.sandbox))
            log.sandbox = log.sandbox.model_copy(update={"limits_enforced": sandbox.limits_enforced})
            await stage_task(sandbox, spec, rounds[0], place)
        for of in rounds:
            changes.append(await _play(spec, of, Court(spec, of, place, backend, folder / of.folder), sandbox, log))
            log.changes = write_changes(merge_changes(changes), folder)
            evaluation = log.rounds[-1].evaluation
            if evaluation and not of.is_good_enough(evaluation):
                break
        log.complete()
        log.artifacts = list_files(folder, *(f"{of.folder}/artifacts".lstrip("/") for of in rounds))
        log.resources = await sandbox.usage()
        if spec.options.keep == "snapshot":
            await keep_snapshot(sandbox, folder)


async def _play(spec: TrialSpec, of: Round, court: Court, sandbox: Sandbox, log: TrialLog) -> FileChanges:
    """One round: the agent's turn, then the verifier's."""
    notes = log.begin(of)
    place, config = court.place, of.task.config
    with log.phase("setup", of):
        network = choose_network(of.agent.network or config.environment.network, spec.options, place.capabilities)
        launch = spec.agent.prepare(AgentContext(of.task, of.step, place.workdir, os.environ))
        await stage_round(sandbox, spec, of, place, launch, network)
    with log.phase("agent", of):
        if launch is None:
            notes.agent_result = DID_NOTHING
        else:  # an agent that does not come to its end by a failure of ours has no result
            notes.agent_result = await run_agent(sandbox, spec, notes, launch, network, court.folder / "agent")
    with log.phase("collect", of):
        work = await take_stock(sandbox, of, place, notes.agent_result, court.folder)
    with log.phase("verify", of):
        judgement = await verify(court, sandbox, notes.agent_result, work)
        notes.verifier_run, notes.provenance = judgement.run, judgement.provenance
    with log.phase("score", of):
        notes.evaluation = score(of, judgement, work.changes)
    return work.changes


async def _choose(spec: TrialSpec, backend: SandboxBackend, log: TrialLog) -> Place:
    capabilities = await backend.probe()
    environment = spec.task.config.environment
    place = choose_place(spec.task, environment, spec.options, capabilities, os.environ)
    policy = spec.task.config.agent.network or environment.network
    log.sandbox = SandboxRef(
        backend=capabilities.backend,
        image=place.sandbox.image.reference,
        reproducible=place.sandbox.image.reproducible,
        limits_asked=place.asked,
        network=choose_network(policy, spec.options, capabilities).mode,
    )
    return place
