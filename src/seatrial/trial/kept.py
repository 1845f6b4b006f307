"""Judging an end state that was kept: the same verification, long after the trial, and as often as one likes.

The tests may have changed meanwhile, or the options; that is what one judges again for. The image may not.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.agent import AgentResult
from seatrial.model.base import StrictModel
from seatrial.model.record import CHANGES, FileChanges, StepRecord, TrialRecord, VerifierRun
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.session import open_sandbox
from seatrial.trial.judge import judge
from seatrial.trial.judgement import Judgement
from seatrial.trial.machinery import Machinery
from seatrial.trial.place import Place
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.snapshot import ARCHIVE, lay_out_snapshot
from seatrial.trial.spec import TrialSpec
from seatrial.trial.verification import Verification
from seatrial.trial.work import Work, merge_changes
from seatrial.verify.fetch import MANIFEST, ArtifactManifest, KeptArtifact, fetch_output

Stored = TypeVar("Stored", bound=StrictModel)


@dataclass(frozen=True, slots=True)
class KeptTrial:
    """A stored trial: its record, and the folder with its files."""

    record: TrialRecord
    folder: Path

    def archive(self, round_: Round) -> Path:
        """Where the end state of a round is, if it was kept."""
        return self.folder / round_.folder / ARCHIVE


def kept_verification(spec: TrialSpec, round_: Round, place: Place, trial: KeptTrial, folder: Path) -> Verification:
    """What is to be judged of a stored trial, its logs to go to `folder`. Raises UsageError for what cannot be again.

    Which rounds changed which files was not kept, so all of them are this round's.
    """
    _check_image(place, trial.record)
    result, run = _ended(trial.record, round_)
    changes = _read(trial.folder / CHANGES, FileChanges)
    if changes is None:
        raise UsageError(f"{trial.folder / CHANGES}: it is not there, and tells what is to be kept from a verifier")
    artifacts = trial.folder / round_.folder / "artifacts"
    work = Work(None, changes, changes, run.survivors if run else (), _kept_artifacts(artifacts), artifacts)
    return Verification(spec, round_, place, folder, result, work)


async def judge_kept(verification: Verification, archive: Path, machinery: Machinery) -> Judgement:
    """Judge a kept end state in a fresh sandbox of the image it was made from. Nothing of the agent runs there.

    Raises HostUnsupportedError on a backend whose sandboxes have no files of their own, UsageError for an archive
    that is not there, ContentError for one that is none.
    """
    _check_backend(verification.place)
    if not archive.is_file():  # noqa: ASYNC240 - one look
        raise UsageError(f"{archive}: no end state was kept; `--keep snapshot` keeps one")
    async with open_sandbox(machinery.backend, verification.place.sandbox) as fresh:
        await lay_out_snapshot(fresh, archive)
        work = await work_laid_out(verification, fresh)
        work = replace(work, output=await fetch_output(fresh, verification.round.judged.output, work.found))
        return await judge(replace(verification, work=work), fresh, machinery, archive)


async def work_laid_out(verification: Verification, fresh: Sandbox) -> Work:
    """The work of an agent whose end state is laid out in a fresh sandbox: nothing of it runs there."""
    return replace(verification.work, found=await _found(verification, fresh), survivors=())


async def _found(verification: Verification, fresh: Sandbox) -> FileChanges:
    """What a verifier may have to be kept from.

    Processes that outlived the agent went on after its changes were listed, and the end state was kept after them: so
    all of it may be theirs but the task's own files.
    """
    work, place = verification.work, verification.place
    if not work.survivors:
        return work.found
    staged = {path for round_ in rounds_of(verification.round.task) for path in round_.staged_files(place.workdir)}
    now = await fresh.changes()
    later = FileChanges(
        added=tuple(path for path in now.added if path not in staged),
        modified=tuple(path for path in now.modified if path not in staged),
        removed=now.removed,
        truncated=now.truncated,
    )
    return merge_changes([work.found, later])


def _check_backend(place: Place) -> None:
    capabilities = place.capabilities
    if capabilities.isolation != "namespaces":
        raise HostUnsupportedError(
            f"the {capabilities.backend} backend cannot lay out an end state: its sandboxes have this machine's own "
            "files; use embedded, docker or podman"
        )


def _check_image(place: Place, record: TrialRecord) -> None:
    image, then = place.sandbox.image, record.sandbox
    if (image.reference, image.digest) != (then.image, then.image_digest):
        raise UsageError(
            f"{record.trial_id}: its end state lies on the image {then.image} ({then.image_digest or 'no digest'}), "
            f"and the task now has {image.reference} ({image.digest or 'no digest'})"
        )


def _ended(record: TrialRecord, round_: Round) -> tuple[AgentResult, VerifierRun | None]:
    """How the agent of a round ended, and how its verifier was run, if it was."""
    told: TrialRecord | StepRecord | None = record
    if round_.step:
        told = next((step for step in record.steps if step.name == round_.name), None)
    if told is None or told.agent_result is None:
        where = f", step {round_.name}" if round_.step else ""
        raise UsageError(f"{record.trial_id}{where}: its agent never came to an end, so there is nothing to judge")
    return told.agent_result, told.verifier_run


def _kept_artifacts(folder: Path) -> tuple[KeptArtifact, ...]:
    """The artifacts that were kept. A stored folder may be a stranger's: none of them may be elsewhere."""
    manifest = _read(folder / MANIFEST, ArtifactManifest)
    kept = manifest.artifacts if manifest else ()
    inside = folder.resolve()
    for artifact in kept:
        if not (folder / artifact.destination).resolve().is_relative_to(inside):
            raise UsageError(f"{folder / MANIFEST}: {artifact.destination!r} leads out of {folder}")
    return kept


def _read(path: Path, kind: type[Stored]) -> Stored | None:
    """A stored file; None where there is none."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
