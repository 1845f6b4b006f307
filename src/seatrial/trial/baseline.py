"""Is a silent verifier broken, or did the agent silence it? It is asked about an environment without an agent.

One that ran out of time is asked too: where it has time enough there, the agent's work took it; where it has not, its
time is too short on this machine, whatever it judges.

Whether a silent verifier counts as 0 must not depend on who profits from that. One that judges the untouched
environment was silenced by the agent, and its 0 counts; one that is silent there too has no verdict for anybody.

A later step of a task has no untouched environment: its verifier is asked where all steps up to its own were laid out
and none was worked on. One that judges there can judge anything. One that does not may only miss the earlier steps'
work, but nobody can tell, so it has no verdict either.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from seatrial.errors import AgentSetupError, HealthcheckError
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.record import Baseline, FileChanges, VerifierRun
from seatrial.sandbox.host.attendance import Attendance
from seatrial.scoring.findings import Finding, with_finding
from seatrial.trial.answers import RunAnswers, question_about
from seatrial.trial.busy import TIMED_OUT, time_taken
from seatrial.trial.exhaustion import ensure_unspoiled
from seatrial.trial.judge import judge
from seatrial.trial.judgement import Judgement
from seatrial.trial.machinery import Machinery
from seatrial.trial.rounds import Round
from seatrial.trial.untouched import open_untouched
from seatrial.trial.verification import Verification
from seatrial.trial.work import DID_NOTHING, take_stock

_MULTIPLIER = "run with --verifier-timeout-multiplier"
WAY_OUT = (
    'correct its tests; or if they give their verdict by the exit status, set `verdict = "exit_status"` in [verifier] '
    "of task.toml or run with --verdict exit_status"
)


@dataclass(frozen=True, slots=True)
class _Answer:
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
