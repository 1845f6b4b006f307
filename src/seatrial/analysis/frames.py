"""Trials as a pandas DataFrame, for those who have pandas: a row per trial, the same columns for every job."""

from typing import TYPE_CHECKING

from seatrial.analysis.arms import arms_of
from seatrial.analysis.columns import COLUMNS, ColumnKind, trial_rows
from seatrial.analysis.loaded import LoadedJob
from seatrial.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_KINDS: dict[ColumnKind, str] = {
    "text": "string",
    "integer": "Int64",
    "number": "float64",
    "boolean": "boolean",
    "time": "datetime64[ns, UTC]",
    "texts": "object",
    "numbers": "object",
    "shares": "object",
}


def trial_frame(job: LoadedJob) -> "pd.DataFrame":
    """The trials of a job. Lists and shares stay Python objects. Raises UsageError where there is no pandas."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise UsageError("pandas is not installed, and a DataFrame needs it: pip install 'seatrial[pandas]'") from error
    rows = [*trial_rows(arms_of([job]))]
    frame = pd.DataFrame(index=range(len(rows)))
    for place, column in enumerate(COLUMNS):
        values = [row[place] for row in rows]
        frame[column.name] = pd.Series(
            pd.to_datetime(values, utc=True, format="ISO8601") if column.kind == "time" else values,
            dtype=_KINDS[column.kind],
        )
    return frame
