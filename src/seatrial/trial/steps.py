"""The steps of a trial: `run_trial` takes them in order, HarborEnv takes the same ones with its hooks in between.

Each is noted in the trial's log, so that the record says how far a trial came. What a step does is in the module of its
name: `place`, `setup`, `work`, `judge`, `verdict`, `snapshot`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.agents.api import Agent, AgentContext, AgentLaunch, is_reference
from seatrial.agents.environ import agent_variables
from seatrial.concurrency import finish, unless
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.record import AgentResult, FileChanges, SandboxRef
from seatrial.sandbox.api import Network, Sandbox, open_sandbox
from seatrial.sandbox.host.attendance import Attendance
from seatrial.sandbox.host.watch import SAMPLE_SEC, host_watch
from seatrial.tasks.variables import allowed_variables, templates_in
from seatrial.trial.entrypoint import Entrypoint
from seatrial.trial.judge import Judgement
from seatrial.trial.log import RoundLog, TrialLog
from seatrial.trial.place import Place, agent_network, choose_network, find_place, network_mode
from seatrial.trial.repeats import judge_repeatedly
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.setup import open_task, stage_round
from seatrial.trial.snapshot import ARCHIVE, forget_state, keep_state, snapshot_policy
from seatrial.trial.spec import Machinery, TrialSpec, version_command
from seatrial.trial.verdict import Verdicts, explaining
from seatrial.trial.verification import Verification
from seatrial.trial.warnings import ensure_not_busy, trace_agent
from seatrial.trial.work import (
    DID_NOTHING,
    Work,
    hide_in_logs,
    merge_changes,
    run_agent,
    take_stock,
    write_changes,
)
from seatrial.verify.artifacts import list_files

if TYPE_CHECKING:  # an HTTP server and client, which most trials do without
    from seatrial.gateway.access import ModelAccess, OpenAccess
    from seatrial.gateway.session import Keys


@dataclass(eq=False, slots=True)
class OpenTrial:
    """A trial under way, with its sandbox. Its rounds are begun one after the other, then it is completed."""

    spec: TrialSpec
    machinery: Machinery
    agent: Agent
    folder: Path
    log: TrialLog
    place: Place
    sandbox: Sandbox
    host: Attendance
    entrypoint: Entrypoint
    changes: list[FileChanges] = field(default_factory=list)
    outlived: bool = False
    """Whether processes outlived an agent. They may change files while its verifier runs and after: what later rounds
    find is then counted from that agent's start."""
    to_keep: RoundLog | None = None
    """The last round, while its end state is not kept yet."""

    def begin(self, round_: Round) -> "Turn":
        return Turn(self, round_, self.log.begin(round_), self.folder / round_.folder)

    async def complete(self) -> None:
        """All rounds have been judged: note what was kept and used."""
        self.log.complete()
        rounds = rounds_of(self.spec.task)
        self.log.artifacts = list_files(self.folder, *(f"{round_.folder}/artifacts".lstrip("/") for round_ in rounds))
        self.log.resources = await self.sandbox.usage()
        await self.keep_end_state()

    async def keep_end_state(self) -> None:
        """Keep the end state of the last round, if that is wanted. One that cannot be kept changes no result.

        It is kept before a verifier touches it, but only while nothing runs: where some of the agent's processes run
        on, which a verifier may need, it has to wait until the end.
        """
        notes, self.to_keep = self.to_keep, None
        if notes is not None:
            policy = snapshot_policy(self.spec.options, self.spec.agent)
            notes.end_state = await keep_state(self.sandbox, self.folder / notes.round.folder, policy, notes.survivors)
            if policy.keep == "snapshot" and not notes.end_state.kept:
                self.log.tell(f"{self.spec.trial_id}: its end state could not be kept: {notes.end_state.reason}")


@asynccontextmanager
async def open_trial(spec: TrialSpec, machinery: Machinery, folder: Path, log: TrialLog) -> AsyncIterator[OpenTrial]:
    """A trial with a furnished sandbox that is gone when the block is left. Raises TrialError or UsageError."""
    async with host_watch().attend(spec.trial_id, folder, spec.company) as host, AsyncExitStack() as stack:
        host.agent_at_work = lambda: log.agent_was_at_work(SAMPLE_SEC)
        async with explaining(host, log):
            with log.phase("setup"):
                agent = machinery.agent(spec.agent)
                log.agent = agent.ref
                place, chosen = await _choose(spec, machinery, log)
                sandbox = await stack.enter_async_context(open_sandbox(machinery.backend, place.sandbox))
                host.furnish(sandbox, place.capabilities.state_folders)
                log.sandbox = chosen.model_copy(update={"limits_enforced": sandbox.limits_enforced})
                opening = open_task(sandbox, spec, rounds_of(spec.task)[0], place, folder)
                entrypoint = await stack.enter_async_context(opening)
            yield OpenTrial(spec, machinery, agent, folder, log, place, sandbox, host, entrypoint)


async def _choose(spec: TrialSpec, machinery: Machinery, log: TrialLog) -> tuple[Place, SandboxRef]:
    place = await find_place(spec, machinery)
    environment, capabilities = spec.task.config.environment, place.capabilities
    policy = spec.task.config.agent.network or environment.network
    log.agent_layer = place.sandbox.image.agent_layer
    chosen = log.sandbox = SandboxRef(
        backend=capabilities.backend,
        image=place.sandbox.image.reference,
        image_asked=environment.docker_image,
        image_digest=place.sandbox.image.digest,
        reproducible=place.sandbox.image.reproducible,
        limits_asked=place.asked,
        network=choose_network(policy, spec.options, capabilities).mode,
        network_asked=network_mode(policy, spec.options),
    )
    return place, chosen


@dataclass(eq=False, slots=True)
class Turn:
    """One round under way: the agent's turn, then the verifier's. Its steps come once each, in the order they stand."""

    trial: OpenTrial
    round: Round
    notes: RoundLog
    _folder: Path

    @property
    def network(self) -> Network:
        """Whom the agent may reach. Raises HostUnsupportedError for a network that it cannot have here."""
        return agent_network(self.round, self.trial.spec.options, self.trial.place.capabilities)

    async def set_up(self) -> AgentLaunch | None:
        """Prepare the agent and put in place what it may see; returns what to run, None when there is nothing."""
        trial = self.trial
        with trial.log.phase("setup", self.round):
            context = AgentContext(self.round.task, self.round.step, trial.place.workdir, os.environ, self._allowed)
            launch = trial.agent.prepare(context)
            with trial.entrypoint.preparing():
                await stage_round(trial.sandbox, trial.spec, self.round, trial.place, launch, self.network)
            if launch and launch.version:
                trial.log.agent = trial.agent.ref.model_copy(update={"version": await self._ask_version(launch)})
        return launch

    async def _ask_version(self, launch: AgentLaunch) -> str:
        trial, command = self.trial, version_command(launch, self.round.agent.user)
        image = trial.place.sandbox.image
        return await trial.machinery.versions.ask(trial.spec.agent.title, image, trial.sandbox, command)

    def open_model(self, port: int = 0) -> AbstractAsyncContextManager["OpenAccess | None"]:
        """The agent's way to its model while the block lasts; None for a trial without one. What it used is noted."""
        model = self.trial.machinery.model
        return nullcontext() if model is None else self._open_model(model, port)

    @asynccontextmanager
    async def _open_model(self, model: "ModelAccess", port: int) -> AsyncIterator["OpenAccess"]:
        trial = self.trial
        listener = await trial.sandbox.listen(port)
        secrets = tuple(self._allowed.values())
        keys: Keys = "any" if trial.place.capabilities.private_loopback else "own"
        async with model.open(listener, self._folder, trial.agent.ref.model, secrets, keys) as access:
            try:
                yield access
            finally:
                self.notes.model_usage = access.session.usage

    async def run_agent(self, launch: AgentLaunch | None, access: "OpenAccess | None") -> AgentResult:
        """Run the agent's command to its end or to the end of its time; either is data.

        Raises ProviderError when its model fails meanwhile: what it does without one says nothing about it. Raises
        HostBusyError when others used the processors for more of its time than the run accepts.
        """
        with self.trial.log.phase("agent", self.round):
            # An agent that does not come to its end by a failure of ours has no result.
            self.notes.agent_result = await self._run(launch, access) if launch else DID_NOTHING
        if launch and not is_reference(self.trial.agent):
            tally = access.session.tally if access else None
            self.notes.trace = trace_agent(self.notes.agent_result, self._folder / "agent", tally)
        ensure_not_busy("agent", self.notes.agent_result, self.trial.spec.options)
        return self.notes.agent_result

    async def _run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        trial, folder = self.trial, self._folder / "agent"
        usual = agent_variables(self.round.task, self.round.task.workdir, trial.agent.ref.model)
        reached = launch.finished({**usual, **(access.variables if access else {})})
        seconds = self.round.agent_seconds(trial.spec.options)
        running = run_agent(
            trial.sandbox,
            self.round,
            reached,
            self.network,
            seconds,
            folder,
            changes_from_here=not trial.outlived,
        )
        if access is None:
            return await running
        access.session.waits.agent_starts(seconds)
        result = await unless(access.session.broken, running)
        await access.session.check_end(timed_out=result is not None and result.status == "timed_out")
        assert result is not None  # noqa: S101 - it is only missing when the session is broken
        return result

    async def take_stock(self, agent_result: AgentResult) -> Work:
        """What the agent left behind, before anybody else touches anything."""
        trial = self.trial
        with trial.log.phase("collect", self.round):
            work = await take_stock(
                trial.sandbox, self.round, trial.place, agent_result, self._folder, alone=not trial.outlived
            )
            if secrets := self._secrets_in_headers():
                await asyncio.to_thread(hide_in_logs, self._folder, secrets)
            trial.changes.append(work.changes)
            trial.outlived = trial.outlived or bool(work.survivors)
            trial.log.changes = write_changes(merge_changes(trial.changes), trial.folder)
            trial.to_keep, self.notes.survivors = self.notes, work.survivors
            if not work.survivors:
                await trial.keep_end_state()
        return work

    async def verify(self, agent_result: AgentResult, work: Work) -> Judgement:
        """Run the verifier where the agent cannot reach it."""
        verification = self.verification(agent_result, work)
        with self.trial.log.phase("verify", self.round):
            return await self._verdicts.confirm(verification, await self._judge(verification), self.notes)

    async def _judge(self, verification: Verification) -> Judgement:
        trial, archive = self.trial, self._folder / ARCHIVE
        try:
            return await judge_repeatedly(verification, trial.sandbox, trial.machinery, archive)
        finally:
            if trial.spec.options.keep == "record":
                self.notes.end_state = forget_state(self._folder)  # it was for the repeats only

    def score(self, judgement: Judgement, work: Work) -> EvaluationResult:
        """The evaluation of the verifier's verdict. Raises HostExhaustedError, HostBusyError where it tells nothing."""
        assert self.notes.agent_result is not None  # noqa: S101 - it was verified
        with self.trial.log.phase("score", self.round):
            return self._verdicts.settle(self.verification(self.notes.agent_result, work), judgement, self.notes)

    def verification(self, agent_result: AgentResult, work: Work) -> Verification:
        """What is to be judged of this round."""
        trial = self.trial
        earlier = merge_changes(trial.changes[:-1])
        place, prepared = trial.place, trial.entrypoint.changed
        return Verification(
            trial.spec,
            self.round,
            place,
            self._folder,
            agent_result,
            work,
            earlier,
            prepared=prepared,
            used=self.notes.verifier_usage,
        )

    @property
    def _verdicts(self) -> Verdicts:
        return Verdicts(self.trial.machinery, self.trial.host, self.trial.log.tell)

    @property
    def _allowed(self) -> Mapping[str, str]:
        """What of this machine's variables the task may have."""
        return allowed_variables(self.trial.spec.options.allow_env)

    def _secrets_in_headers(self) -> list[str]:
        """What of this machine's variables is in headers of MCP servers, and so in settings among the agent's logs."""
        servers = self.round.task.config.environment.mcp_servers
        names = {name for server in servers for name, _ in templates_in(server.headers)}
        return [self._allowed[name] for name in names if name in self._allowed]


# After the trial.


async def keep_trajectories(log: TrialLog, folder: Path) -> None:
    """Write a trajectory for each round of a finished trial that had a model. One that cannot be made changes nothing.

    What was wrong with it is told.
    """
    for notes in log.rounds:
        if notes.model_usage is not None:
            await _keep_trajectory(log, notes, folder / notes.round.folder)


async def _keep_trajectory(log: TrialLog, notes: RoundLog, folder: Path) -> None:
    # Only for trials with a model.
    from seatrial.trajectories.atif import keep_trajectory, session_of  # noqa: PLC0415

    session = session_of(log.trial_id, notes.round.name)
    try:
        # In a thread, for other trials go on meanwhile; to its end, for it writes to a folder that may be removed.
        reason = await finish(asyncio.to_thread(keep_trajectory, folder, log.agent, session))
    except Exception as error:  # noqa: BLE001 - the verdict is safe, and no text of a stranger may take it away
        reason = f"{type(error).__name__}: {error}"
    if reason:
        log.tell(f"{session}: no trajectory was made: {reason}")
