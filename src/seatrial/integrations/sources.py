"""open_source: whose results a folder or file holds."""

from pathlib import Path
from typing import Literal

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import ForeignSource
from seatrial.integrations.harbor_jobs import HarborResults, has_trials
from seatrial.integrations.harbor_trial import RESULT
from seatrial.integrations.verifiers_results import RESULTS, VerifiersResults
from seatrial.model.imported import SourceFormat

_EXPECTED = f"a folder with {RESULTS} (verifiers), or with folders that have a {RESULT} (Harbor)"


def open_source(path: Path, form: SourceFormat | Literal["auto"] = "auto") -> ForeignSource:
    """The results at a path; `auto` looks what is there. Raises ImportSourceError."""
    folder = path.parent if path.name in (RESULTS, RESULT) and path.is_file() else path
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise ImportSourceError(f"{path}: {what}, expected {_EXPECTED}")
    try:
        if form == "verifiers" or (form == "auto" and (folder / RESULTS).is_file()):
            return VerifiersResults(folder)
        if form == "harbor" or has_trials(folder):
            return HarborResults(folder)
    except OSError as error:
        raise ImportSourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    raise ImportSourceError(f"{path}: holds no results, expected {_EXPECTED}")
