"""Were agent and verifier kept from running since others used the processors? That is marked, or makes a trial void."""

from collections.abc import Iterator

from seatrial.errors import HostBusyError
from seatrial.model.agent import AgentResult
from seatrial.model.job import TrialOptions
from seatrial.model.record import TrialWarning, VerifierRun

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
    """Whether it was kept from running for more than a share of its time. Less than a second does no harm."""
    return ended.busy_share > share and (ended.cpu_wait_sec or 0.0) >= _LEAST_SEC


def _kept_waiting(who: str, ended: AgentResult | VerifierRun) -> str:
    return (
        f"the {who} was kept from running for {ended.cpu_wait_sec or 0.0:.1f} of its {ended.duration_sec:.1f} s, "
        "because others used the processors"
    )
