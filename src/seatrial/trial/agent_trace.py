"""Whether an agent really ran: could its command be started, and did it ever reach the model it was given?

What is found becomes a warning on the trial and never a reward: the verifier's word counts, the warning says how
little it may tell about the agent.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.gateway.tally import CallTally
from seatrial.model.agent import AgentResult
from seatrial.model.record import TrialWarning

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


@dataclass(frozen=True, slots=True)
class AgentTrace:
    """What an agent's turn left to judge that by; there is no `tally` where it was given no model."""

    not_started: str | None = None
    tally: CallTally | None = None


def trace_agent(result: AgentResult, folder: Path, tally: CallTally | None) -> AgentTrace:
    """The trace of a turn whose output is in `folder`."""
    return AgentTrace(_why_not_started(result, folder, tally), tally)


def find_warnings(traces: Sequence[AgentTrace]) -> tuple[TrialWarning, ...]:
    """What a trial is tagged with, by the traces of its rounds. The first cause is named, not what follows from it."""
    for trace in traces:
        if trace.not_started:
            return (TrialWarning(code="agent_not_started", message=trace.not_started),)
    tallies = [trace.tally for trace in traces if trace.tally]
    return tuple(filter(None, (_about_calls(tallies),))) if tallies else ()


def _about_calls(tallies: Sequence[CallTally]) -> TrialWarning | None:
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


def _why_not_started(result: AgentResult, folder: Path, tally: CallTally | None) -> str | None:
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
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
