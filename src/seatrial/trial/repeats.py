"""An end state judged again: several times within a trial, or once more long after it.

Each repeat has a sandbox of its own where the end state was kept, so that none meets what another left. Where it was
not, or while processes of the agent run on, repeats come one after the other in the same sandbox, and are said to. Of
several judgements the lowest counts.
"""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.base import StrictModel
from seatrial.model.job import TrialOptions
from seatrial.model.record import CHANGES, AgentResult, FileChanges, StepRecord, TrialRecord, VerifierRun
from seatrial.sandbox.api import Sandbox, open_sandbox
from seatrial.scoring.repeats import RepeatPlace, compare_verdicts, lowest
from seatrial.trial.judge import Judgement, evaluate, judge
from seatrial.trial.place import Place
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.snapshot import ARCHIVE, lay_out_snapshot
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.verification import Verification
from seatrial.trial.work import Work, merge_changes
from seatrial.untrusted.files import read_file
from seatrial.verify.artifacts import MANIFEST, ArtifactManifest, KeptArtifact, fetch_output

# Several times.

JudgeOnce = Callable[[Verification], Awaitable[Judgement]]


async def judge_repeatedly(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, archive: Path | None = None
) -> Judgement:
    """Judge what an agent left in a sandbox as often as the run wants; `archive` is its end state, if it was kept."""
    own_files = verification.place.capabilities.isolation == "namespaces"
    archive = archive if own_files else None
    first = await judge(verification, sandbox, machinery, archive)
    if archive is not None and archive.is_file():
        return await with_others(verification, first, lambda asked: judge_kept(asked, archive, machinery), "fresh")
    return await with_others(verification, first, lambda asked: judge(asked, sandbox, machinery), "same")


async def with_others(verification: Verification, first: Judgement, again: JudgeOnce, place: RepeatPlace) -> Judgement:
    """The one judgement that becomes of a first one and as many others as the run wants.

    What further runs print and write goes to `verifier/repeat-2` and so on.
    """
    judgements = [first]
    for number in range(2, verification.options.verify_repeats + 1):
        scratch = verification.folder / f".repeat-{number}"
        try:
            judgement = await again(replace(verification, folder=scratch))
            judgements.append(_moved(judgement, verification, scratch, number))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if len(judgements) == 1:
        return first
    return settle(verification.round, judgements, verification.options, place)


def _moved(judgement: Judgement, verification: Verification, scratch: Path, number: int) -> Judgement:
    """The judgement with its files beside those of the first one."""
    name = f"verifier/repeat-{number}"
    (scratch / "verifier").rename(verification.folder / name)
    base = Path(verification.round.folder, name).as_posix()
    paths = {"stdout_path": f"{base}/stdout.txt", "stderr_path": f"{base}/stderr.txt"}
    return replace(judgement, run=judgement.run.model_copy(update=paths))


def settle(round_: Round, judgements: Sequence[Judgement], options: TrialOptions, place: RepeatPlace) -> Judgement:
    """One judgement of several on the same end state: the one with the lowest reward, which knows of the others."""
    repeated = compare_verdicts([evaluate(round_, each, options) for each in judgements], place)
    chosen = judgements[lowest(repeated.rewards)]
    run = chosen.run.model_copy(update={"repeats": repeated.rewards, "repeated_in": place})
    return replace(chosen, run=run, repeated=repeated)


# From what is stored. The tests may have changed since, or the options; the image may not.

Stored = TypeVar("Stored", bound=StrictModel)
_MOST_BYTES = 2**30


class KeptTrial(NamedTuple):
    """A stored trial: its record, and the folder with its files."""

    record: TrialRecord
    folder: Path

    def archive(self, round_: Round) -> Path:
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
    try:
        return kind.model_validate_json(read_file(path, _MOST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
