"""Finds what makes a trial's verdict doubtful: an agent that never ran, a verifier without a tool, a busy machine.

Warnings change no reward. Only `ensure_not_busy` voids a trial, where a run asks for that by `--max-busy`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seatrial.errors import HostBusyError
from seatrial.model.evaluation import (
    EvaluationResult,
)
from seatrial.model.job import TrialOptions
from seatrial.model.record import (
    AgentResult,
    TrialWarning,
    VerifierRun,
)
from seatrial.scoring.text import Finding, with_finding
from seatrial.trial.rounds import Round
from seatrial.untrusted.files import read_end

if TYPE_CHECKING:  # trials without a model need nothing of the gateway
    from seatrial.gateway.base import CallTally


class AgentTrace(NamedTuple):
    """What an agent's turn left that shows whether it really ran; there is no `tally` where it was given no model."""

    not_started: str | None = None
    tally: "CallTally | None" = None


# Whether an agent really ran: could its command be started, and did it ever reach the model it was given?

_SOON_SEC = 5.0  # longer than a loaded machine takes to find that there is no such program
_NEVER_STARTED = (126, 127)  # what shells say of a program that cannot be executed, and of one that is not there
_TAIL_BYTES = 4096
_LONGEST_LINE = 300
# What interpreters and loaders say when the program, or a part it cannot begin without, is not there.
_MISSING = re.compile(
    r"can't open file|can(?:no|')t open .*no such file|: can't open |can't open perl script|cannot find module"
    r"|no module named|unable to access jarfile|could not find or load main class|\(loaderror\)|module not found"
    r"|bad interpreter|exec format error|error while loading shared libraries|command not found|: not found$",
    re.IGNORECASE,
)


def trace_agent(result: AgentResult, folder: Path, tally: "CallTally | None") -> AgentTrace:
    return AgentTrace(_why_not_started(result, folder, tally), tally)


def find_warnings(traces: Sequence[AgentTrace]) -> tuple[TrialWarning, ...]:
    """What a trial is tagged with, by the traces of its rounds. The first cause is named, not what follows from it."""
    for trace in traces:
        if trace.not_started:
            return (TrialWarning(code="agent_not_started", message=trace.not_started),)
    tallies = [trace.tally for trace in traces if trace.tally]
    return tuple(filter(None, (_about_calls(tallies),))) if tallies else ()


def _about_calls(tallies: "Sequence[CallTally]") -> TrialWarning | None:
    requests = sum(tally.requests for tally in tallies)
    refused = sum(tally.refused_by_us for tally in tallies)
    if any(tally.answered for tally in tallies):
        return None
    if not requests:
        return TrialWarning(code="no_model_call", message="the agent was given a model and made no call to it")
    calls = "the one call" if requests == 1 else f"all {requests:,} calls"
    if refused < requests:
        message = f"{calls} that the agent made to its model came to nothing; calls.jsonl has the reasons"
        return TrialWarning(code="calls_unanswered", message=message)
    last = next((tally.last_refusal for tally in reversed(tallies) if tally.last_refusal), "no reason was noted")
    return TrialWarning(code="calls_refused", message=f"the gateway refused {calls} that the agent made: {last}")


def _why_not_started(result: AgentResult, folder: Path, tally: "CallTally | None") -> str | None:
    """What kept an agent from starting; None for one that did start, whatever became of it."""
    soon = result.duration_sec < _SOON_SEC and not (tally and tally.answered)
    if not soon or not result.exit_code or result.exit_code < 0:
        return None
    said = _last_lines(folder / "stderr.txt") or _last_lines(folder / "stdout.txt")
    named = next((line for line in reversed(said) if _MISSING.search(line)), None)
    if named is None and result.exit_code not in _NEVER_STARTED:
        return None
    reason = (named or (said[-1] if said else "it said nothing"))[:_LONGEST_LINE]
    return f"the agent's command ended with {result.exit_code} after {result.duration_sec:.1f} s: {reason}"


def _last_lines(path: Path) -> list[str]:
    try:
        text = read_end(path, _TAIL_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


# A verifier that lacked a tool: read from the ends of what it printed, where it gave a 0.

TOOL_MISSING = "verifier_tool_missing"
_OUTPUT_TAIL_BYTES = 64 * 2**10
_SCRIPT_BYTES = 2**20


def find_missing_tools(round_: Round, evaluation: EvaluationResult, logs: Path) -> tuple[str, ...]:
    """The tools that the verifier of a round could not find; none where it gave a reward all the same."""
    if evaluation.reward != 0.0:
        return ()
    printed = [_tail(logs / name, _OUTPUT_TAIL_BYTES) for name in ("stdout.txt", "stderr.txt")]
    if not any(printed):
        return ()
    from seatrial.scoring.missing_tools import missing_tools  # noqa: PLC0415 - only for a verifier that gave nothing

    own = round_.task.root / (round_.layout.test_script or "tests/test.sh")
    script = round_.given[-1] / "test.sh" if round_.given else own
    return missing_tools(
        printed, _head(script, _SCRIPT_BYTES).decode(errors="replace"), round_.instruction().decode(errors="replace")
    )


def explain_missing_tools(evaluation: EvaluationResult, tools: tuple[str, ...]) -> EvaluationResult:
    if not tools:
        return evaluation
    return with_finding(evaluation, Finding(TOOL_MISSING, about_missing_tools(tools)))


def about_missing_tools(tools: Iterable[str]) -> str:
    """What a 0 is worth that came from a verifier without these tools."""
    return f"the verifier could not find {', '.join(tools)}, so its 0 may say nothing about the agent"


def missing_tool_notice(round_: Round, tool: str) -> str:
    """What the watchers of a run are told once about a task and a tool."""
    step = f", step {round_.name}" if round_.step else ""
    return (
        f"{round_.task.id}{step}: the verifier could not find {tool} and gave 0; "
        "install it in the task's image, or see in its output why the test script could not"
    )


def _head(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def _tail(path: Path, limit: int) -> bytes:
    try:
        return read_end(path, limit)
    except OSError:
        return b""


# Whether others used the processors that agent and verifier needed: that is a warning, or makes a trial void.

TIMED_OUT = "verifier_timeout"

ABOUT_TIME = frozenset({"host_busy", "agent_timeout_busy", TIMED_OUT})
"""The warnings that `find_busy` gives."""

_LEAST_SHARE, _LEAST_SEC = 0.2, 1.0


def find_busy(agent: AgentResult | None, verifier: VerifierRun | None) -> Iterator[TrialWarning]:
    """What a round is tagged with for the time that its agent and its verifier had."""
    for who, ended in (("agent", agent), ("verifier", verifier)):
        if ended and _was_kept(ended, _LEAST_SHARE):
            yield TrialWarning(code="host_busy", message=_kept_waiting(who, ended))
            if isinstance(ended, AgentResult) and ended.status == "timed_out":
                message = f"the agent ran out of time on a busy machine: {_kept_waiting(who, ended)}"
                yield TrialWarning(code="agent_timeout_busy", message=message)
    if verifier and verifier.timed_out:
        yield TrialWarning(code=TIMED_OUT, message=f"the verifier ran out of time: {time_taken(verifier)}")


def time_taken(run: VerifierRun) -> str:
    """How long a verifier had, and what it got of the processors."""
    cpu = "" if run.cpu_sec is None else f" with {run.cpu_sec:.1f} s of processor time"
    waited = f", {run.cpu_wait_sec:.1f} s of which others used the processors" if run.cpu_wait_sec else ""
    return f"it had {run.duration_sec:.1f} s{cpu}{waited}"


def ensure_not_busy(who: str, ended: AgentResult | VerifierRun, options: TrialOptions) -> None:
    """Raise HostBusyError when an agent or a verifier was kept from running for more of its time than a run accepts."""
    if options.max_busy is not None and _was_kept(ended, options.max_busy):
        raise HostBusyError(
            f"{_kept_waiting(who, ended)}, more than {options.max_busy:.0%} (--max-busy); run fewer trials at once "
            "(-n), or end what else keeps this machine busy"
        )


def _was_kept(ended: AgentResult | VerifierRun, share: float) -> bool:
    return ended.busy_share > share and (ended.cpu_wait_sec or 0.0) >= _LEAST_SEC


def _kept_waiting(who: str, ended: AgentResult | VerifierRun) -> str:
    return (
        f"the {who} was kept from running for {ended.cpu_wait_sec or 0.0:.1f} of its {ended.duration_sec:.1f} s, "
        "because others used the processors"
    )
