"""An end state that can be judged as often as one likes: kept of a trial, or the untouched environment with files.

What the verifier meets may be edited first, and it may run under other conditions; the state itself stays as it is. A
sandbox in which it is laid out is used again where nobody has touched anything in it, and is otherwise made anew.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from seatrial.agents.api import Agent
from seatrial.concurrency import finish
from seatrial.model.evaluation import EvaluationResult
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.transfer import put_tree
from seatrial.trial.judge import judge
from seatrial.trial.judgement import Judgement, score
from seatrial.trial.kept import work_laid_out
from seatrial.trial.laid_out import Edit, LaidOut, files_below, with_changes
from seatrial.trial.live_state import run_up_to
from seatrial.trial.machinery import Machinery
from seatrial.trial.snapshot import lay_out_snapshot
from seatrial.trial.spec import TrialSpec
from seatrial.trial.untouched import open_untouched
from seatrial.trial.verification import USUAL_CONDITIONS, Verification, VerifierConditions
from seatrial.trial.verifier_place import choose_isolation
from seatrial.verify.fetch import PUBLISHED, fetch_output, keep_artifacts

__all__ = ["Edit", "EndState", "Judged", "StateBench"]

_MOST_IDLE = 8


@dataclass(frozen=True, slots=True)
class EndState:
    """What a verifier is to judge. Without an `archive`, it is the untouched environment; `files` lie over either.

    Processes are in no archive. A state that needs them is made by running its agent again: that of the `live` trial,
    up to the round that is judged, or a given `agent` of its name. Nobody can tell what a verifier does to processes,
    so that happens each time.
    """

    verification: Verification
    archive: Path | None = None
    files: Path | None = None
    live: TrialSpec | None = None
    agent: Agent | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for states that a sandbox can be made for only once."""
        spec, place = self.verification.spec, self.verification.place.sandbox
        files = (self.archive, self.files, place.image, place.limits, place.workdir)
        return (spec.task.root, spec.task_digest, self.verification.round.name, *files)


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of judging an end state once."""

    judgement: Judgement
    evaluation: EvaluationResult


class StateBench:
    """Judges end states, each as often as it is asked to; several at once if need be.

    As an async context manager it keeps sandboxes for the next verification, a few at most, and removes them at the
    end; without that, each one is removed after it was used. `verifications` counts what was judged, and `laid_out` how
    often a state had to be made for it.
    """

    def __init__(self, machinery: Machinery, most_idle: int = _MOST_IDLE) -> None:
        self._machinery = machinery
        self._most_idle = most_idle
        self._idle: list[tuple[tuple[object, ...], LaidOut]] = []
        self._open = False
        self.verifications = 0
        self.laid_out = 0

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        await finish(self._remove_idle(0))

    async def judge(
        self,
        state: EndState,
        folder: Path,
        edits: Sequence[Edit] = (),
        conditions: VerifierConditions = USUAL_CONDITIONS,
    ) -> Judged:
        """Judge an end state with some edits; what the verifier prints and writes goes to `folder`.

        Raises TrialError or UsageError where the machinery fails, as a trial does.
        """
        laid = self._find_idle(state) or await self._lay_out(state, folder)
        try:
            changes = await laid.edit(edits)
            verification = laid.verification or state.verification
            verification = replace(
                verification, folder=folder, conditions=conditions, work=laid.work or verification.work
            )
            verification = with_changes(verification, changes)
            judged = await self._judge(verification, laid)
            self.verifications += 1
            unchanged = self._open and await laid.is_as_before()
        except BaseException:
            await finish(laid.remove())
            raise
        if unchanged:
            self._idle.append((state.key, laid))
            await finish(self._remove_idle(self._most_idle))
        else:
            await finish(laid.remove())
        return judged

    async def _judge(self, verification: Verification, laid: LaidOut) -> Judged:
        work, round_ = verification.work, verification.round
        work = replace(work, output=await fetch_output(laid.sandbox, round_.judged.output, work.found))
        if choose_isolation(verification) == "separate":  # it gets nothing else, so these have to be edited ones too
            artifacts = verification.folder / "artifacts"
            kept = await keep_artifacts(laid.sandbox, [PUBLISHED, *round_.artifacts], artifacts)
            work = replace(work, kept=kept, artifacts=artifacts)
        judgement = await judge(replace(verification, work=work), laid.sandbox, self._machinery)
        return Judged(judgement, score(round_, judgement, work.changes, verification.options))

    def _find_idle(self, state: EndState) -> LaidOut | None:
        """The sandbox that was used last for the same state, if there is one that nobody uses now."""
        for index in reversed(range(len(self._idle))):
            if state.live is None and self._idle[index][0] == state.key:
                return self._idle.pop(index)[1]
        return None

    async def _lay_out(self, state: EndState, folder: Path) -> LaidOut:
        self.laid_out += 1
        async with AsyncExitStack() as stack:
            laid = await self._make(state, folder, stack)
            if state.files:
                await put_tree(laid.sandbox, "/", state.files)
                laid.added = files_below(state.files)
            if self._open and not state.live:
                await laid.note_stamps()
            laid.keep_open(stack.pop_all())
        return laid

    async def _make(self, state: EndState, folder: Path, stack: AsyncExitStack) -> LaidOut:
        if state.live:
            place = (state.verification.round.name, folder / "live")
            machinery = self._machinery.with_agent(state.live.agent.title, state.agent)
            sandbox, verification = await run_up_to(state.live, machinery, *place, stack)
            return LaidOut(sandbox, verification)
        backend, verification = self._machinery.backend, state.verification
        if state.archive:
            sandbox = await stack.enter_async_context(open_sandbox(backend, verification.place.sandbox))
            await lay_out_snapshot(sandbox, state.archive)
            return LaidOut(sandbox, work=await work_laid_out(verification, sandbox))
        return LaidOut(await stack.enter_async_context(open_untouched(verification, backend, folder)))

    async def _remove_idle(self, most: int) -> None:
        """Remove those that have not been used for longest."""
        while len(self._idle) > most:
            await self._idle.pop(0)[1].remove()
