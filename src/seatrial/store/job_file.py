"""Reading job.json, and telling a folder that may become a job from one that may not."""

import errno
import json
import secrets
import shlex
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from seatrial.errors import JobError
from seatrial.model.job import JOB_SCHEMA_VERSION, JobFile
from seatrial.store.files import read_plain, storing
from seatrial.store.job_mark import JOB
from seatrial.store.seal import SEAL

_MAX_JOB_BYTES = 2**30
_MAX_TRIALS = 1_000_000
_OURS = frozenset({"trials", "tries", ".drafts", ".lock", f".{JOB}.new", SEAL})


def new_job_id() -> str:
    """An id that no other job has."""
    return secrets.token_hex(16)


def ensure_free(folder: Path) -> None:
    """Raise JobError unless a new job can be made in this folder."""
    with storing(folder):
        if folder.exists() and not folder.is_dir():
            raise JobError(f"{folder}: is a file, expected a folder for the job; choose another one")
        if (folder / JOB).exists():
            raise JobError(f"{folder}: holds a job already; {_how_to_go_on(folder)}, or choose another folder")
        # Our own empty folders are what a crash leaves of a job that was just being made.
        foreign = sorted(_foreign(folder)) if folder.exists() else []
    if foreign:
        raise JobError(
            f"{folder}: is not empty ({foreign[0]} is in it) and holds no job; choose an empty or new folder"
        )


def make_folders(folder: Path, names: Iterable[str]) -> None:
    """Make the folder of a new job and those in it. Raises JobError that says where and why that is not possible."""
    try:
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        there = next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
        # Such as /proc, which says that what is to be made there does not exist.
        odd = error.errno == errno.ENOENT
        why = "it takes no new folders" if odd else error.strerror or str(error)
        raise JobError(f"{folder}: the job's folder cannot be made in {there}: {why}; name another with -o") from error


def _how_to_go_on(folder: Path) -> str:
    try:
        driver = read_job_file(folder)[0].driver
    except JobError as error:
        return f"it cannot be read ({error}); move it away"
    if driver == "environment":
        return "these are rollouts of an environment: go on with them by `resume=True` beside `save_to`"
    if driver == "import":
        return "results were imported into it: move it away"
    return f"go on with it by `{shlex.join(('seatrial', 'resume', str(folder)))}`"


def _foreign(folder: Path) -> set[str]:
    found = {path.name for path in folder.iterdir()} - _OURS
    return found | {f"{name}/" for name in ("trials", "tries") if any(folder.glob(f"{name}/*"))}


def read_job_file(folder: Path) -> tuple[JobFile, bytes]:
    """What job.json says, and its bytes. Raises JobError that says why it cannot be read."""
    path = folder / JOB
    with storing(path):
        if not path.is_file():
            what = "no such folder" if not folder.exists() else f"no {JOB} in it"
            raise JobError(f"{folder}: {what}, so it is not a job; name the folder that `seatrial run` made")
        content = read_plain(path, _MAX_JOB_BYTES)
    try:
        file = JobFile.model_validate_json(content)
    except ValidationError as error:
        raise JobError(_what_is_wrong(path, content, error)) from None
    check_size(folder, file)
    return file, content


def check_size(folder: Path, file: JobFile) -> None:
    """Raise JobError for a job of more trials than can be listed: a stranger's may ask for as many as it likes."""
    trials = len(file.tasks) * len(file.spec.agents) * file.spec.attempts
    if trials > _MAX_TRIALS:
        raise JobError(
            f"{folder}: the job asks for {trials:,} trials, expected {_MAX_TRIALS:,} at most; make several jobs of it"
        )


def _what_is_wrong(path: Path, content: bytes, error: ValidationError) -> str:
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as broken:
        return f"{path}: is not JSON ({broken}); restore it from a copy, or run the job anew in another folder"
    version = table.get("schema_version") if isinstance(table, dict) else None
    if isinstance(version, int) and version > JOB_SCHEMA_VERSION:
        return (
            f"{path}: has version {version}, this Seatrial reads up to {JOB_SCHEMA_VERSION}; install a newer Seatrial"
        )
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return f"{path}: {where}: {first['msg']}; restore it from a copy, or run the job anew in another folder"
