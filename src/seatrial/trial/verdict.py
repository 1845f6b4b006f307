"""From a verifier's judgement to the evaluation that stands, the same in a trial and in a regrade.

A verifier that gave no verdict is asked about an environment without an agent. What was judged while this machine was
short of something counts only if that changes nothing. What speaks against the verifier itself is said in the
evaluation. `judge.py` ran the verifier; nothing here runs an agent.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from seatrial.errors import AgentSetupError, HealthcheckError, HostExhaustedError, InfraError
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.record import Baseline, FileChanges, VerifierRun
from seatrial.sandbox.host.attendance import Attendance
from seatrial.sandbox.host.disks import FULL
from seatrial.scoring.text import Finding, with_finding
from seatrial.trial.judge import Judgement, judge, score
from seatrial.trial.log import RoundLog, TrialLog
from seatrial.trial.reference import RunAnswers, question_about
from seatrial.trial.rounds import Round
from seatrial.trial.setup import open_untouched
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.warnings import (
    TIMED_OUT,
    ensure_not_busy,
    explain_missing_tools,
    find_missing_tools,
    missing_tool_notice,
    time_taken,
)
from seatrial.trial.work import DID_NOTHING, take_stock

_FULL_REWARD = 1.0


class Verdicts(NamedTuple):
    """Makes evaluations of judgements and notes them in a round's log, while `host` is looked after.

    Whoever watches is told by `tell`.
    """

    machinery: Machinery
    host: Attendance
    tell: Callable[[str], None]

    async def confirm(self, verification: Verification, judgement: Judgement, notes: RoundLog) -> Judgement:
        """The judgement with what its verifier does without an agent, if it was silent. Raises TrialError."""
        if judgement.verdict.value != _FULL_REWARD:
            await self.host.look()
        judgement = await with_baseline(verification, judgement, self.machinery, self.host)
        notes.verifier_run, notes.provenance, notes.disputed = judgement.run, judgement.provenance, judgement.disputed
        return judgement

    def settle(self, verification: Verification, judgement: Judgement, notes: RoundLog) -> EvaluationResult:
        """The evaluation of a round. Raises HostExhaustedError or HostBusyError where the judgement tells nothing."""
        round_ = verification.round
        ensure_not_busy("verifier", judgement.run, verification.options)
        evaluation = void_if_short(self.host, score(round_, judgement, verification.work.changes, verification.options))
        tools = find_missing_tools(round_, evaluation, verification.folder / "verifier")
        for tool in tools:
            self.tell(missing_tool_notice(round_, tool))
        if broken := broken_verifier(round_, judgement.run):
            self.tell(broken)
        notes.missing_tools = tools
        notes.evaluation = explain_silence(round_, explain_missing_tools(evaluation, tools), judgement.run)
        return notes.evaluation


# What becomes of a trial that ran while this machine was short of something: it is void, unless that tells nothing new.
#
# A full reward stands: no shortage has ever made wrong work right. So does every verdict on a trial that used the
# thing up itself: it is judged as it is, and where it kept its own verifier from judging, that is a zero.

_TOOK_ALL = "host_exhausted_by_agent"
_MAY_BE_SHORTAGE = (OSError, InfraError, MemoryError, RuntimeError)  # the last is Python's for no more threads


def ensure_unspoiled(host: Attendance) -> None:
    """Raise HostExhaustedError when this machine was short of something meanwhile, and not by the trial's own doing."""
    if host.excuse:
        raise HostExhaustedError(host.excuse)


def void_if_short(host: Attendance, evaluation: EvaluationResult) -> EvaluationResult:
    """The evaluation if it stands, with what the trial used up. Raises HostExhaustedError if it does not."""
    if evaluation.reward < _FULL_REWARD:
        ensure_unspoiled(host)
    if host.own_doing is None:
        return evaluation
    message = f"{host.own_doing}; that was its own doing, so what it left was judged as it is"
    return with_finding(evaluation, Finding(_TOOK_ALL, message, "hint"))


@asynccontextmanager
async def explaining(host: Attendance, log: TrialLog) -> AsyncIterator[None]:
    """Where what fails in this block does so for want of something, raise a HostExhaustedError that names it.

    Where the agent took it, and nothing is left to judge it by, a zero is noted instead and nothing is raised.
    """
    try:
        yield
    except _MAY_BE_SHORTAGE as error:
        await host.look()
        if host.own_doing and log.rounds:
            _unjudgeable(log.rounds[-1], host.own_doing)
        elif isinstance(error, HostExhaustedError):
            raise
        elif host.excuse:
            raise HostExhaustedError(f"{host.excuse}; what failed for it: {error}") from error
        elif isinstance(error, OSError) and error.errno in FULL:
            raise HostExhaustedError(f"no room for the files of the trial: {error}") from error
        else:
            raise


def _unjudgeable(notes: RoundLog, own_doing: str) -> None:
    """Note a zero: the agent used up what its own verifier would have needed, which is one way to silence it."""
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=False)
    notes.verifier_run = VerifierRun(duration_sec=0.0, isolation="kill", baseline="judged")
    notes.evaluation = with_finding(
        EvaluationResult(reward=0.0, validity=validity),
        Finding(_TOOK_ALL, f"{own_doing}; that left no room to judge its work, so 0.0 counts"),
    )


# Is a silent verifier broken, or did the agent silence it? It is asked about an environment without an agent.
#
# One that ran out of time is asked too: where it has time enough there, the agent's work took it; where it has not,
# its time is too short on this machine, whatever it judges.
#
# Whether a silent verifier counts as 0 must not depend on who profits from that. One that judges the untouched
# environment was silenced by the agent, and its 0 counts; one that is silent there too has no verdict for anybody.
#
# A later step of a task has no untouched environment: its verifier is asked where all steps up to its own were laid
# out and none was worked on. One that judges there can judge anything. One that does not may only miss the earlier
# steps' work, but nobody can tell, so it has no verdict either.

_MULTIPLIER = "run with --verifier-timeout-multiplier"
WAY_OUT = (
    'correct its tests; or if they give their verdict by the exit status, set `verdict = "exit_status"` in [verifier] '
    "of task.toml or run with --verdict exit_status"
)


class _Answer(NamedTuple):
    """What a verifier does without an agent, and how long it takes for that; when `timed_out`, as long as it may."""

    baseline: Baseline
    duration_sec: float | None = None
    timed_out: bool = False


_answers: RunAnswers[_Answer] = RunAnswers()


async def with_baseline(
    verification: Verification, judgement: Judgement, machinery: Machinery, host: Attendance
) -> Judgement:
    """A judgement that says, where its verifier was silent, what that verifier does without an agent.

    One whose agent took all that this machine had was silenced by it. Raises TrialError when a sandbox or the host
    fails on the way: a verifier that says nothing on a machine that is out of something tells nothing about anybody.
    """
    if not judgement.verdict.silent:
        return judgement
    if host.own_doing:
        return _with(judgement, _Answer("judged"))
    ensure_unspoiled(host)
    answers = _answers.of_this_run()
    question = question_about(verification, judgement.provenance.tests_digest)
    if verification.agent_result is DID_NOTHING and _is_first(verification.round) and question not in answers.known:
        answers.keep(question, _answer(judgement))  # nobody has been here, so this was the baseline
    baseline = await answers.get(question, lambda: _ask(verification, machinery, host))
    return _with(judgement, baseline)


def _with(judgement: Judgement, answer: _Answer) -> Judgement:
    known = {"baseline": answer.baseline, "baseline_sec": answer.duration_sec, "baseline_timed_out": answer.timed_out}
    return replace(judgement, run=judgement.run.model_copy(update=known))


def _answer(judgement: Judgement) -> _Answer:
    run = judgement.run
    return _Answer("silent" if judgement.verdict.silent else "judged", run.duration_sec, run.timed_out)


def _is_first(round_: Round) -> bool:
    return round_.step is None or round_.step is round_.task.steps[0]


async def _ask(verification: Verification, machinery: Machinery, host: Attendance) -> _Answer:
    """Have the verifier judge a fresh sandbox in which nobody has done anything."""
    folder = verification.folder / "baseline"
    async with AsyncExitStack() as stack:
        try:
            fresh = await stack.enter_async_context(open_untouched(verification, machinery.backend, folder))
        except (AgentSetupError, HealthcheckError):
            if _is_first(verification.round):
                raise
            return _Answer("silent")  # a later step that cannot even begin without the work of the earlier ones
        work = await take_stock(fresh, verification.round, verification.place, DID_NOTHING, folder)
        untouched = replace(verification, folder=folder, agent_result=DID_NOTHING, work=work, earlier=FileChanges())
        judgement = await judge(untouched, fresh, machinery)
    if judgement.verdict.silent:
        await host.look()
        ensure_unspoiled(host)
    return _answer(judgement)


def explain_silence(round_: Round, evaluation: EvaluationResult, run: VerifierRun) -> EvaluationResult:
    """The evaluation with what a verifier's silence amounts to."""
    if run.baseline is None:
        return evaluation
    where = "the untouched environment" if _is_first(round_) else "an environment in which no step was worked on"
    if run.baseline_timed_out:
        message = f"the verifier runs out of time on {where} too, {_too_short(run)}, so none of its verdicts counts"
        return with_finding(evaluation, Finding("verifier_broken", message))
    if run.baseline == "judged" and run.timed_out:
        usual = "" if run.baseline_sec is None else f", and judges {where} in {run.baseline_sec:.1f} s"
        message = f"the verifier ran out of time after the agent: {time_taken(run)}{usual}; 0.0 counts"
        return with_finding(evaluation, Finding(TIMED_OUT, message))
    if run.baseline == "judged":
        message = f"the verifier judges {where}, but said nothing after the agent; 0.0 counts"
        return with_finding(evaluation, Finding("verifier_silenced", message))
    message = f"the verifier gives no verdict on {where} either, so none of its verdicts counts; {WAY_OUT}"
    return with_finding(evaluation, Finding("verifier_broken", message))


def _too_short(run: VerifierRun) -> str:
    allowed = "its time" if run.timeout_sec is None else f"the {run.timeout_sec:g} s it has"
    return f"{allowed} being too short; raise `timeout_sec` in [verifier] of task.toml, or {_MULTIPLIER}"


def broken_verifier(round_: Round, run: VerifierRun) -> str | None:
    """What the watchers of a run are told once about a task whose verifier is silent whatever it is shown."""
    if run.baseline != "silent":
        return None
    step = f", step {round_.name}" if round_.step else ""
    if run.baseline_timed_out:
        return f"{round_.task.id}{step}: the verifier runs out of time even where no agent has been, {_too_short(run)}"
    return f"{round_.task.id}{step}: the verifier gives no verdict even where no agent has been; {WAY_OUT}"
