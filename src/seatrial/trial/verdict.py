"""From a verifier's judgement to an evaluation that stands: the same for a trial and for one that is judged again.

A verifier that said nothing is asked about an environment without an agent. What was judged on a machine that was out
of something counts only if that changes nothing. And what speaks against the verifier itself is said.
"""

from collections.abc import Callable
from dataclasses import dataclass

from seatrial.model.evaluation import EvaluationResult
from seatrial.sandbox.host.attendance import Attendance
from seatrial.trial.baseline import broken_verifier, explain_silence, with_baseline
from seatrial.trial.busy import ensure_not_busy
from seatrial.trial.exhaustion import standing
from seatrial.trial.judgement import Judgement, score
from seatrial.trial.machinery import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_tools import explain_missing_tools, find_missing_tools, missing_tool_notice

_FULL_REWARD = 1.0


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Makes evaluations of judgements, while `host` is looked after. Whoever watches is told by `tell`."""

    machinery: Machinery
    host: Attendance
    tell: Callable[[str], None]

    async def confirm(self, verification: Verification, judgement: Judgement) -> Judgement:
        """The judgement with what its verifier does without an agent, if it was silent. Raises TrialError."""
        if judgement.verdict.value != _FULL_REWARD:
            await self.host.look()
        return await with_baseline(verification, judgement, self.machinery, self.host)

    def settle(self, verification: Verification, judgement: Judgement) -> "Settled":
        """The evaluation of a round. Raises HostExhaustedError or HostBusyError where the judgement tells nothing."""
        round_ = verification.round
        ensure_not_busy("verifier", judgement.run, verification.options)
        evaluation = standing(self.host, score(round_, judgement, verification.work.changes, verification.options))
        tools = find_missing_tools(round_, evaluation, verification.folder / "verifier")
        for tool in tools:
            self.tell(missing_tool_notice(round_, tool))
        if broken := broken_verifier(round_, judgement.run):
            self.tell(broken)
        explained = explain_silence(round_, explain_missing_tools(evaluation, tools), judgement.run)
        return Settled(explained, tools)


@dataclass(frozen=True, slots=True)
class Settled:
    """An evaluation that stands, and the tools that its verifier lacked."""

    evaluation: EvaluationResult
    missing_tools: tuple[str, ...]
