"""Trials as JSON Lines: one object per trial with every column."""

from collections.abc import Sequence
from typing import BinaryIO

import orjson

from seatrial.analysis.arms import Arm
from seatrial.analysis.columns import COLUMNS, trial_rows
from seatrial.report.formats.clean_text import utf8_value


def write_jsonl(arms: Sequence[Arm], out: BinaryIO) -> None:
    """Write a line for each trial. What is not known is null."""
    names = [column.name for column in COLUMNS]
    for row in trial_rows(arms):
        line = {name: utf8_value(value) for name, value in zip(names, row, strict=True)}
        out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
