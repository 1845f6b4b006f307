"""An end state that can be judged as often as one likes: kept of a trial, or the untouched environment with files.

What the verifier meets may be edited first, and it may run under other conditions; the state itself stays as it is.
"""

import posixpath
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.errors import SandboxError
from seatrial.model.evaluation import EvaluationResult
from seatrial.sandbox.api import ExecSpec, Sandbox
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.transfer import put_file, put_tree
from seatrial.trial.judge import judge
from seatrial.trial.judgement import Judgement, score
from seatrial.trial.machinery import Machinery
from seatrial.trial.odd_files import OddFile, make_odd_file
from seatrial.trial.snapshot import lay_out_snapshot
from seatrial.trial.untouched import furnish_untouched
from seatrial.trial.verification import USUAL_CONDITIONS, Verification, VerifierConditions
from seatrial.verify.fetch import fetch_output

_EDIT_SEC = 60.0


@dataclass(frozen=True, slots=True)
class Edit:
    """A file of an end state that is to be another one before it is judged; without `content` it is to be gone.

    With `odd`, something else than a plain file is to be in its place.
    """

    path: str
    content: bytes | None = None
    mode: int = 0o644
    odd: OddFile | None = None


@dataclass(frozen=True, slots=True)
class EndState:
    """What a verifier is to judge. Without an `archive`, it is the untouched environment; `files` lie over either."""

    verification: Verification
    archive: Path | None = None
    files: Path | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of judging an end state once."""

    judgement: Judgement
    evaluation: EvaluationResult


class StateBench:
    """Judges end states, each as often as it is asked to; several at once if need be."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery

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
        async with self._open(state) as sandbox:
            for edit in edits:
                await _apply(sandbox, edit)
            verification = state.verification
            output = await fetch_output(sandbox, verification.round.judged.output)
            work = replace(verification.work, output=output)
            asked = replace(verification, folder=folder, work=work, conditions=conditions)
            judgement = await judge(asked, sandbox, self._machinery)
            evaluation = score(verification.round, judgement, work.changes, verification.options)
        return Judged(judgement, evaluation)

    @asynccontextmanager
    async def _open(self, state: EndState) -> AsyncIterator[Sandbox]:
        async with open_sandbox(self._machinery.backend, state.verification.place.sandbox) as fresh:
            if state.archive:
                await lay_out_snapshot(fresh, state.archive)
            else:
                await furnish_untouched(state.verification, fresh)
            if state.files:
                await put_tree(fresh, "/", state.files)
            yield fresh


async def _apply(sandbox: Sandbox, edit: Edit) -> None:
    if edit.odd is not None:
        await make_odd_file(sandbox, edit.path, edit.odd)
        return
    if edit.content is not None:
        await put_file(sandbox, edit.path, edit.content, mode=edit.mode)
        return
    command = ("/bin/rm", "-rf", "--", posixpath.normpath(edit.path))
    done = await sandbox.exec(ExecSpec(command, cwd="/", user=0, timeout_sec=_EDIT_SEC))
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise SandboxError(f"{edit.path} cannot be removed from the end state: {said}")
