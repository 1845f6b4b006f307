"""regrade.json: the regrade that a job is in the middle of. It is gone when that has come to its end."""

import datetime as dt
import secrets
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from seatrial.model.base import Sha256, StrictModel, Timestamp, to_json
from seatrial.store.files import read_plain, replace_file, storing

REGRADE = "regrade.json"
_MAX_BYTES = 2**16


class OpenRegrade(StrictModel):
    """A regrade that was begun. `key` is a digest of all that was asked for, by which it is known again."""

    id: Annotated[str, Field(min_length=1)]
    key: Sha256
    started_at: Timestamp


def read_open_regrade(job: Path) -> OpenRegrade | None:
    """The regrade that a job is in the middle of; None where there is none, or nothing that can be read as one."""
    try:
        return OpenRegrade.model_validate_json(read_plain(job / REGRADE, _MAX_BYTES))
    except (OSError, ValidationError):
        return None


def new_regrade(key: str) -> OpenRegrade:
    """A regrade that begins now."""
    return OpenRegrade(id=secrets.token_hex(8), key=key, started_at=dt.datetime.now(dt.UTC))


def begin_regrade(job: Path, regrade: OpenRegrade) -> None:
    """Note that a regrade is under way, by whoever has the lock. Raises StoreError."""
    with storing(job / REGRADE):
        replace_file(job / REGRADE, to_json(regrade))


def end_regrade(job: Path) -> None:
    """Note that it has come to its end."""
    with storing(job / REGRADE):
        (job / REGRADE).unlink(missing_ok=True)
