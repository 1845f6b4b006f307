"""A verifier's way to the model that it asks: a session of the gateway for each run of it, opened after the agent.

The session listens in the verifier's sandbox, has a key of its own that nobody has known before, and ends with the run.
What a verifier makes of its model's failures does not count: where the provider failed, or a limit was reached, there
is no verdict, whatever reward was written.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.concurrency import unless
from seatrial.errors import VerifierModelError
from seatrial.sandbox.api import ExecResult, Sandbox
from seatrial.tasks.variables import allowed_variables, is_provider_key
from seatrial.trial.verification import Verification

if TYPE_CHECKING:  # an HTTP server and client, which most verifiers do without
    from seatrial.gateway.access import ModelAccess
    from seatrial.gateway.session import Session

Begun = Callable[[], None]
Run = Callable[[Begun], Coroutine[Any, Any, ExecResult]]
"""Runs a verifier, and calls back when its time begins."""


@dataclass(frozen=True, slots=True)
class VerifierSession:
    """The session of one run, or none; `variables` are those by which clients of models find it."""

    variables: Mapping[str, str] = field(default_factory=dict)
    session: "Session | None" = None
    names_key: bool = False
    """Whether nobody but the verifier can come to it, and the task names a key for that: else whoever came with another
    key may be the work that is judged, which tests run."""

    @property
    def asked(self) -> Mapping[str, str]:
        """The models that were asked, by the names that were asked for."""
        return dict(self.session.asked) if self.session else {}

    async def run(self, run: Run, timeout_sec: float) -> ExecResult:
        """Run the verifier to its end. Raises ModelError where what it says tells nothing, for want of its model."""
        session = self.session
        if session is None:
            return await run(lambda: None)
        result = await unless(session.broken, run(lambda: session.waits.agent_starts(timeout_sec)))
        await session.check_end(timed_out=result is not None and result.timed_out)
        assert result is not None  # noqa: S101 - it is only missing when the session is broken
        _ensure_served(session, names_key=self.names_key)
        return result


def _ensure_served(session: "Session", *, names_key: bool) -> None:
    """Raise VerifierModelError where a limit was reached, or no call had an answer because none may have one.

    A call that the model refused for what is in it was answered: the agent may have a hand in that.
    """
    if session.over_budget is not None:
        raise VerifierModelError(f"the verifier could not ask its model: {session.over_budget}; there is no verdict")
    if session.turned_away is not None and not session.answered:
        names = ", ".join(session.asked) or "no model"
        raise VerifierModelError(
            f"the verifier asked for {names}, and the provider answered {session.turned_away}; there is no verdict: "
            "name one that it has with --verifier-model ASKED=OTHER"
        )
    if session.locked and names_key and not session.answered:
        raise VerifierModelError(
            "the verifier sent another key than that of its session, so no model was asked; there is no verdict: "
            'in [verifier.env] of task.toml, write OPENAI_API_KEY = "${OPENAI_API_KEY}", and the like for other clients'
        )


def open_session(
    verification: Verification, sandbox: Sandbox, model: "ModelAccess | None", folder: Path
) -> AbstractAsyncContextManager[VerifierSession]:
    """The session for one run of a verifier in a sandbox, until the block is left; its calls are noted in `folder`."""
    return nullcontext(VerifierSession()) if model is None else _open(verification, sandbox, model, folder)


@asynccontextmanager
async def _open(
    verification: Verification, sandbox: Sandbox, model: "ModelAccess", folder: Path
) -> AsyncIterator[VerifierSession]:
    listener = await sandbox.listen(0)
    secrets = tuple(allowed_variables(verification.options.allow_env).values())
    session = None
    try:
        async with model.open(listener, folder, None, secrets) as access:
            session = access.session
            names = any(map(is_provider_key, verification.round.verifier.env))
            yield VerifierSession(access.variables, session, names and not verification.work.survivors)
    finally:
        if session is not None:
            verification.used.append(session.usage)  # of all calls: those that were under way have ended by now
