"""What is known of a trial while it runs: the events that observers get, the log of its rounds, the record made of it.

`TrialLog.record` makes the record of every trial that runs. The warnings in it are found here too: an agent that never
ran, a verifier that lacked a tool, a machine that was too busy. No warning changes a reward.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from seatrial.agents.files import describe_files
from seatrial.errors import TrialError
from seatrial.model.evaluation import (
    NEEDS_SYSTEM,
    EvaluationResult,
)
from seatrial.model.events import Notice, unobserved
from seatrial.model.job import TrialOptions
from seatrial.model.record import (
    AgentRef,
    AgentResult,
    ArtifactRecord,
    ChangeCounts,
    Failure,
    KeptState,
    ModelUsage,
    Phase,
    PhaseTime,
    Provenance,
    ResourceUse,
    SandboxRef,
    StepRecord,
    TaskRef,
    TrialRecord,
    TrialWarning,
    VerifierRun,
)
from seatrial.trial.combine import combine, combined_reward
from seatrial.trial.events import Observer, PhaseStarted
from seatrial.trial.rounds import Round
from seatrial.trial.spec import TrialSpec
from seatrial.trial.warnings import TOOL_MISSING, AgentTrace, about_missing_tools, find_busy, find_warnings
from seatrial.verify.curate import ABOUT_SYSTEM
from seatrial.verify.integrity import SERVICES_BESIDE, SERVICES_ENDED

_AGENTS_PHASES = ("agent", "collect")


@dataclass(slots=True)
class RoundLog:
    """How far one round has come."""

    round: Round
    agent_result: AgentResult | None = None
    model_usage: ModelUsage | None = None
    verifier_usage: list[ModelUsage] = field(default_factory=list)
    verifier_run: VerifierRun | None = None
    provenance: Provenance | None = None
    end_state: KeptState | None = None
    evaluation: EvaluationResult | None = None
    disputed: float | None = None
    trace: AgentTrace | None = None
    missing_tools: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()


class TrialLog:
    """Filled in as the trial goes on. `rounds` are those that were started."""

    def __init__(self, spec: TrialSpec, observe: Observer) -> None:
        self._spec = spec
        self._observe = observe
        self._phase: Phase = "setup"
        self._times: list[PhaseTime] = []
        self._failure: Failure | None = None
        self._complete = False
        self.agent = AgentRef(name=spec.agent.title, command=spec.agent.command, model=spec.agent.model)
        self.agent_layer: str | None = None
        self.rounds: list[RoundLog] = []
        self.sandbox: SandboxRef | None = None
        """None until one was chosen."""
        self.resources: ResourceUse | None = None
        self.changes: ChangeCounts | None = None
        self.artifacts: tuple[ArtifactRecord, ...] = ()

    @property
    def trial_id(self) -> str:
        return self._spec.trial_id

    @contextmanager
    def phase(self, phase: Phase, round_: Round | None = None) -> Iterator[None]:
        step = round_.name if round_ else None
        self._phase = phase
        self._observe(PhaseStarted(self._spec.trial_id, phase, step))
        started = _now()
        try:
            yield
        finally:
            ended = max(started, _now())  # the clock may be set back meanwhile
            self._times.append(PhaseTime(phase=phase, step=step, started_at=started, finished_at=ended))

    def agent_was_at_work(self, within_sec: float) -> bool:
        """Whether the agent is at work, or was so a moment ago and its verifier has not had much time since."""
        if self._phase in _AGENTS_PHASES:
            return True
        worked = [each.finished_at for each in self._times if each.phase in _AGENTS_PHASES]
        return bool(worked) and (_now() - worked[-1]).total_seconds() < within_sec

    def tell(self, text: str) -> None:
        """Tell whoever watches something that is of no single trial."""
        self._observe(Notice(text))

    def begin(self, round_: Round) -> RoundLog:
        self.rounds.append(RoundLog(round_))
        return self.rounds[-1]

    def complete(self) -> None:
        """All rounds have been judged: whatever fails from now on changes no result."""
        self._complete = True

    def fail(self, error: BaseException) -> None:
        """The machinery failed in the present phase. The first failure counts."""
        if not self._complete and self._failure is None:
            retryable = isinstance(error, TrialError) and error.retryable
            # Names of files may come with bytes that no text can hold.
            message = str(error).encode("utf-8", "backslashreplace").decode() or "no message"
            cause = type(error).__name__
            self._failure = Failure(phase=self._phase, cause=cause, message=message, retryable=retryable)

    def _warnings(self) -> tuple[TrialWarning, ...]:
        tools = sorted({tool for log in self.rounds for tool in log.missing_tools})
        about_tools = (TrialWarning(code=TOOL_MISSING, message=about_missing_tools(tools)),) if tools else ()
        needs_system = any(log.verifier_run and log.verifier_run.needs_system for log in self.rounds)
        about_system = (TrialWarning(code=NEEDS_SYSTEM, message=ABOUT_SYSTEM),) if needs_system else ()
        about_services = _about_services(log.evaluation for log in self.rounds)
        busy = [warning for log in self.rounds for warning in find_busy(log.agent_result, log.verifier_run)]
        about_time = {warning.code: warning for warning in reversed(busy)}.values()
        traces = find_warnings([log.trace for log in self.rounds if log.trace])
        return (*traces, *about_tools, *about_system, *about_services, *about_time)

    def record(self) -> TrialRecord:
        spec, last = self._spec, self.rounds[-1] if self.rounds else None
        steps = bool(last and last.round.step)
        return TrialRecord(
            trial_id=spec.trial_id,
            job=spec.job,
            job_id=spec.job_id,
            task=TaskRef(id=spec.task.id, name=spec.task.name, digest=spec.task_digest, source=spec.task.config.source),
            agent=self._agent_ref(),
            sandbox=self.sandbox or _not_chosen(spec.options),
            attempt=spec.attempt,
            times=tuple(self._times),
            resources=self.resources,
            agent_result=last.agent_result if last else None,
            model_usage=_total([log.model_usage for log in self.rounds if log.model_usage]),
            verifier_usage=_total([usage for log in self.rounds for usage in log.verifier_usage]),
            verifier_run=last.verifier_run if last else None,
            provenance=last.provenance if last else None,
            artifacts=self.artifacts,
            changes=self.changes,
            end_state=last.end_state if last else None,
            steps=tuple(map(_step_record, self.rounds)) if steps else (),
            pass_threshold=spec.options.pass_threshold,
            evaluation=None if self._failure else self._evaluation(),
            disputed_reward=None if self._failure else self._disputed(),
            warnings=() if self._failure else self._warnings(),
            failure=self._failure,
        )

    def _agent_ref(self) -> AgentRef:
        files = describe_files(self._spec.agent.files)
        layer = self.agent_layer.partition(":")[2] if self.agent_layer else None
        return self.agent.model_copy(update={"files": files, "layer": layer}) if files or layer else self.agent

    def _evaluation(self) -> EvaluationResult:
        judged = {log.round.name: log.evaluation for log in self.rounds if log.evaluation}
        if None in judged:
            return judged[None]
        named = {name: evaluation for name, evaluation in judged.items() if name}
        return combine(named, self._spec.task.config.multi_step_reward_strategy)

    def _disputed(self) -> float | None:
        """The reward if every disputed verdict were believed; None when there is none."""
        if all(log.disputed is None for log in self.rounds):
            return None
        rounds = [(log.disputed, log.evaluation.reward) for log in self.rounds if log.evaluation]
        believed = [given if disputed is None else disputed for disputed, given in rounds]
        return combined_reward(believed, self._spec.task.config.multi_step_reward_strategy)


def failed_record(spec: TrialSpec, error: BaseException) -> TrialRecord:
    """The record of a trial that an error ended before it could say anything itself."""
    log = TrialLog(spec, unobserved)
    log.fail(error)
    return log.record()


def _about_services(evaluations: Iterable[EvaluationResult | None]) -> Iterator[TrialWarning]:
    tags = [tag for evaluation in evaluations if evaluation for tag in evaluation.error_taxonomy or ()]
    for code in (SERVICES_ENDED, SERVICES_BESIDE):
        if said := next((tag.description for tag in tags if tag.category == code), None):
            yield TrialWarning(code=code, message=said)


def _total(usages: list[ModelUsage]) -> ModelUsage | None:
    """What all rounds used together; a cost only if each one's is known."""
    if not usages:
        return None
    costs = [usage.cost_usd for usage in usages]
    names = ModelUsage.model_fields.keys() - {"cost_usd", "prices", "omitted"}
    counted = {name: sum(getattr(usage, name) for usage in usages) for name in names}
    total = sum(filter(None, costs)) if None not in costs else None
    tables = dict.fromkeys(usage.prices for usage in usages if usage.prices)
    prices = "; ".join(tables) if tables and total is not None else None
    omitted = tuple(dict.fromkeys(name for usage in usages for name in usage.omitted))
    return ModelUsage(**counted, cost_usd=total, prices=prices, omitted=omitted)


def _not_chosen(options: TrialOptions) -> SandboxRef:
    return SandboxRef(backend=options.backend, image=options.image, network="", reproducible=False)


def _step_record(log: RoundLog) -> StepRecord:
    return StepRecord(
        name=log.round.name or "",
        agent_result=log.agent_result,
        verifier_run=log.verifier_run,
        provenance=log.provenance,
        end_state=log.end_state,
        evaluation=log.evaluation,
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
