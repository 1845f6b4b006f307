"""Judging again what an agent handed over: a separate verifier meets artifacts alone, and those are kept anyway.

So no end state is needed for it, as long as the output that the task expects is among the artifacts.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from seatrial.model.artifacts import RawFile
from seatrial.sandbox.session import open_sandbox
from seatrial.trial.judge import judge
from seatrial.trial.judgement import Judgement
from seatrial.trial.machinery import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_place import choose_isolation
from seatrial.trial.work import Work
from seatrial.verify.collect import collect_output
from seatrial.verify.fetch import PUBLISHED, KeptArtifact


def can_do_with_artifacts(verification: Verification) -> bool:
    """Whether all that is to be judged is among the artifacts that were kept."""
    if choose_isolation(verification) != "separate":
        return False
    expected = verification.round.judged.output
    return expected.path is None or _holder(expected.path, verification) is not None


async def judge_handed_over(verification: Verification, machinery: Machinery) -> Judgement:
    """Judge the artifacts of a stored trial. Raises TrialError where the machinery fails."""
    work = replace(verification.work, output=_output(verification), survivors=())
    async with open_sandbox(machinery.backend, verification.place.sandbox) as untouched:
        return await judge(replace(verification, work=work), untouched, machinery)


def _output(verification: Verification) -> RawFile | None:
    expected = verification.round.judged.output
    if expected.path is None:
        return None
    holder = _holder(expected.path, verification)
    if holder is None or holder.status == "empty":
        return RawFile(expected.path, "missing")
    return collect_output(_inside(expected.path, holder, verification.work), expected)


def _holder(path: str, verification: Verification) -> KeptArtifact | None:
    """The artifact that has the file at a path, or would have it if it had been there."""
    for artifact in _asked_for(verification):
        whole = artifact.status in ("ok", "empty") and not artifact.exclude
        if whole and (path == artifact.source or path.startswith(f"{artifact.source.rstrip('/')}/")):
            return artifact
    return None


def _asked_for(verification: Verification) -> Iterator[KeptArtifact]:
    """What came of each artifact. There is no manifest where nothing was there, and none of what was not touched."""
    kept = verification.work.kept
    yield from kept
    for spec in (PUBLISHED, *(() if kept else verification.round.artifacts)):
        if spec.service in (None, "main"):
            yield KeptArtifact(source=spec.source, destination="", status="empty", exclude=spec.exclude)


def _inside(path: str, holder: KeptArtifact, work: Work) -> Path:
    below = posixpath.relpath(path, holder.source)
    return work.artifacts / holder.destination / below if below != "." else work.artifacts / holder.destination
