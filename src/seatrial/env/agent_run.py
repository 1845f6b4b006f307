"""AgentRun: an agent at work in its sandbox while the loop of its rollout answers it, from its start to its end."""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seatrial.concurrency import finish
from seatrial.env.interception import InterceptedTurn, Interception, RolloutEnded
from seatrial.errors import ProviderError
from seatrial.model.agent import AgentResult

if TYPE_CHECKING:
    from seatrial.env.sandbox_client import SandboxClient
    from seatrial.env.sandbox_values import BackgroundJob

_GRACE_SEC = 5.0


class AgentRun:
    """The task that runs an agent, and the requests it makes meanwhile. `stop` must be called in the end."""

    def __init__(self, interception: Interception, running: Coroutine[Any, Any, AgentResult]) -> None:
        self._interception = interception
        self._began = time.monotonic()
        self._ended_by: Literal["killed", "timed_out"] = "killed"
        # A task of its own, because the loop goes on meanwhile; `stop` waits for it.
        self._task = asyncio.create_task(running)
        self.over = asyncio.Event()
        """Set when the agent has come to its end."""
        self._task.add_done_callback(self._note_end)

    def _note_end(self, _: "asyncio.Task[AgentResult]") -> None:
        self.over.set()
        self._interception.end()

    async def ended(self) -> None:
        """Wait until the agent has come to its end."""
        await _ended(self._task)

    async def next_turn(self) -> InterceptedTurn | None:
        """The agent's next request; None when it has ended."""
        return await self._interception.next_turn()

    async def wind_down(self, why: RolloutEnded, deadline_sec: float | None) -> None:
        """Let the agent finish with what it knows, until it asks again: then it is told why not, and ended soon after.

        At the end of its time, which counts from its start, it is ended in any case.
        """
        self._interception.close(why)
        left = None if deadline_sec is None else max(0.0, deadline_sec - (time.monotonic() - self._began))
        told = asyncio.ensure_future(self._interception.told.wait())
        try:
            done, _ = await asyncio.wait({self._task, told}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
        if not done:
            self._ended_by = "timed_out"
        elif not self._task.done():
            await asyncio.wait({self._task}, timeout=_GRACE_SEC if left is None else min(_GRACE_SEC, left))
        await self.stop(why)

    async def stop(self, why: RolloutEnded | ProviderError, by: Literal["killed", "timed_out"] | None = None) -> None:
        """End the agent, if it has not ended by itself."""
        self._interception.close(why)
        self._ended_by = by or self._ended_by
        self._task.cancel()
        await finish(_ended(self._task))

    def result(self) -> AgentResult:
        """How it ended, after it has. Raises what kept it from coming to its end, if that was no doing of ours."""
        if self._task.cancelled():
            return AgentResult(status=self._ended_by, duration_sec=time.monotonic() - self._began)
        return self._task.result()


async def _ended(task: "asyncio.Task[AgentResult]") -> None:
    await asyncio.wait({task})


async def run_job(client: "SandboxClient", job: "BackgroundJob", logs: Path) -> AgentResult:
    """See a background job that is an agent to its end; what it wrote goes to `logs`."""
    began = time.monotonic()
    try:
        ended = await client.wait_for_background_job(job.sandbox_id, job)
    except asyncio.CancelledError:
        await client.stop_background_job(job.sandbox_id, job)
        raise
    logs.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory, two files
    for name, text in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        (logs / f"{name}.txt").write_text(text or "")
    status: Literal["killed", "exited"] = "killed" if ended.exit_code is None or ended.exit_code < 0 else "exited"
    return AgentResult(status=status, exit_code=ended.exit_code, duration_sec=time.monotonic() - began)
