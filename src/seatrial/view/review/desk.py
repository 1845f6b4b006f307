"""Jobs on the reviewers' desk: trials under the keys by which reviewers know them, and what the journal has of them."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from seatrial.analysis.loaded import LoadedJob, Reviews
from seatrial.check.golden import PASS, find_golden
from seatrial.errors import JobError, SeatrialError, StoreError
from seatrial.jobs.end_states import read_end_state
from seatrial.model.loaded_task import Task
from seatrial.model.record import CHANGES, FileChanges, TrialRecord
from seatrial.model.review import ReviewEntry
from seatrial.review.blind import BlindFile, BlindItem, changed_files, desk_key, item_key
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import read_job_file
from seatrial.tasks.locked import unchanged_task
from seatrial.trial.rounds import Round, rounds_of
from seatrial.untrusted.files import BoundedContent, read_bounded
from seatrial.verify.artifacts import MANIFEST, ArtifactManifest
from seatrial.view.library import Library


class NotOnDeskError(JobError):
    """Somebody asks for what is not there; the message names neither job nor trial."""


@dataclass(frozen=True, slots=True)
class Desk:
    """One job under review, as it was when it was looked up. `trials` are by the keys of items."""

    job_key: str
    job: LoadedJob
    trials: Mapping[str, TrialEntry]
    reviews: Reviews

    def trial(self, key: str) -> TrialEntry:
        """The trial of an item. Raises NotOnDeskError when there is none."""
        if key not in self.trials:
            raise NotOnDeskError("there is no such item in this review; open the review again")
        return self.trials[key]

    def entries(self, key: str) -> list[ReviewEntry]:
        return [*self.reviews.get(self.trial(key).trial_id, ())]


@dataclass(eq=False, slots=True)
class Desks:
    """All jobs under review. Several threads may ask at once."""

    _keys: dict[tuple[str, Path], str] = field(default_factory=dict)
    _items: dict[str, tuple[tuple[TrialEntry, ...], Mapping[str, TrialEntry]]] = field(default_factory=dict)
    _item_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def key_of(self, library: Library, job_key: str) -> str:
        """The key of a job's desk. Raises JobError when there is no such job."""
        return self._key(job_key, library.folder(job_key))

    def open(self, library: Library, key: str) -> Desk:
        """The desk of a key, with everything that is in the journal now. Raises NotOnDeskError when there is none."""
        # A job that cannot be read is no reason to keep people from the others.
        for job_key, folder in library.find().items():
            if self._key(job_key, folder) == key:
                return self._desk(key, job_key, library.job(job_key))
        raise NotOnDeskError("there is no such review here; open it again from the list of jobs")

    def _desk(self, key: str, job_key: str, job: LoadedJob) -> Desk:
        with self._lock:
            known = self._items.get(key)
            if known is None or known[0] is not job.trials:
                trials = {self._item_key(key, job, trial.trial_id): trial for trial in job.trials}
                known = self._items[key] = (job.trials, trials)
            return Desk(job_key, job, known[1], job.store.reviews())

    def _item_key(self, key: str, job: LoadedJob, trial_id: str) -> str:
        """The key of an item, worked out once: every verdict makes new trials, which have its tags."""
        if (key, trial_id) not in self._item_keys:
            self._item_keys[key, trial_id] = item_key(job.file, trial_id)
        return self._item_keys[key, trial_id]

    def _key(self, job_key: str, folder: Path) -> str:
        if (job_key, folder) not in self._keys:
            try:
                self._keys[job_key, folder] = desk_key(read_job_file(folder)[0], job_key)
            except SeatrialError:
                return ""
        return self._keys[job_key, folder]


# What an agent was asked for and what it left: artifacts, the end state, the task's folder. Everything here was there
# before any verifier came, and none of it says who worked.

_MOST_FILES = 100
_MOST_BYTES = 2**22
_MOST_SHOWN = 2**18
_ARTIFACTS = "artifacts"


@dataclass(frozen=True, slots=True)
class WorkFile:
    """A file that the agent left. It is `stored` below the trial's folder, or else in the end state of a `round`."""

    shown: BlindFile
    round: str
    stored: str | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """All of it for one trial. The `task` is None where its folder is gone or has changed since.

    `trial` is the trial's folder as seen from the `job`'s.
    """

    item: BlindItem
    job: Path
    trial: Path
    files: tuple[WorkFile, ...]
    task: Task | None

    def content(self, number: int, limit: int = _MOST_SHOWN) -> BoundedContent | None:
        """The content of a file by its number; None where it was not kept, or where there was none to keep."""
        left = self.files[number]
        try:
            if left.stored is not None:
                return read_bounded(self.trial / left.stored, self.job, limit)
            found = read_end_state(self.job, self.trial / left.round, {left.shown.name}, limit)
            return found[left.shown.name].content if found else None
        except SeatrialError:
            return None

    def golden(self) -> tuple[str, bytes] | None:
        """The golden answer that belongs where the output does, with its name; None where the task has none."""
        if self.task is None or self.task.output.path is None:
            return None
        output = self.task.output.path
        for answer in find_golden(self.task.root, self.task.workdir, output).answers:
            below = "" if answer.target == output else posixpath.relpath(output, answer.target)
            content = _golden_content(answer.source / below, self.task.root)
            if answer.name.startswith(PASS) and content is not None:
                return answer.name, content
        return None


def material_of(desk: Desk, key: str) -> Material:
    """What there is to see of an item. Raises JobError when there is no such item."""
    trial, store = desk.trial(key), desk.job.store
    locked = next((task for task in desk.job.file.tasks if task.id == trial.task_id), None)
    task = unchanged_task(locked)
    rounds = rounds_of(task) if task else ()
    instruction = "\n\n".join(each.instruction().decode() for each in rounds) if task else None
    folder = store.trial_folder(trial.trial_id)
    files = [*_outputs(rounds, folder), *_published(store.revisions(trial.trial_id)[-1].record)]
    if task:
        changed = changed_files(_changes(folder), task.workdir, instruction or "")
        files += [WorkFile(each, rounds[-1].folder) for each in changed]
    named: dict[str, WorkFile] = {}
    for each in files:
        named.setdefault(each.shown.name, each)
    unique = [*named.values()]
    item = BlindItem(
        key=key,
        task=trial.task_id,
        category=desk.job.labels_of(trial.task_id).category,
        instruction=instruction,
        files=tuple(each.shown for each in unique[:_MOST_FILES]),
        left_out=max(0, len(unique) - _MOST_FILES),
    )
    return Material(item, store.path, folder.relative_to(store.path), tuple(unique[:_MOST_FILES]), task)


def _outputs(rounds: tuple[Round, ...], folder: Path) -> Iterator[WorkFile]:
    for each in rounds:
        if path := each.judged.output.path:
            yield WorkFile(BlindFile(path, "output"), each.folder, _among_artifacts(folder, each.folder, path))


def _among_artifacts(folder: Path, round_folder: str, path: str) -> str | None:
    """Where the artifact is that was taken from a path, if it was."""
    try:
        manifest = read_bounded(folder / round_folder / _ARTIFACTS / MANIFEST, folder, _MOST_BYTES)
        kept = ArtifactManifest.model_validate_json(manifest.head).artifacts
    except (StoreError, ValidationError):
        return None
    for each in kept:
        source = each.source.rstrip("/")
        if each.status == "ok" and (path == source or path.startswith(f"{source}/")):
            below = path.removeprefix(source)
            return "/".join(filter(None, (round_folder, _ARTIFACTS, f"{each.destination.rstrip('/')}{below}")))
    return None


def _published(record: TrialRecord) -> Iterator[WorkFile]:
    for each in record.artifacts:
        before, found, name = each.path.partition(f"{_ARTIFACTS}/")
        if found and name != MANIFEST:
            yield WorkFile(BlindFile(name, "published"), before.rstrip("/"), each.path)


def _changes(folder: Path) -> FileChanges:
    try:
        return FileChanges.model_validate_json(read_bounded(folder / CHANGES, folder, _MOST_BYTES).head)
    except (StoreError, ValidationError):
        return FileChanges()


def _golden_content(file: Path, root: Path) -> bytes | None:
    try:
        return read_bounded(file, root).head
    except StoreError:
        return None
