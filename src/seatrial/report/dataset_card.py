"""README.md of a dataset folder: which files it has, of which types its columns are, and what the numbers mean."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seatrial.report.dataset_rows import COLUMNS, CellType, Row
from seatrial.report.text import counted, harmless

_SCALARS: dict[CellType, str] = {"text": "string", "integer": "int64", "number": "float64"}
_MESSAGE = """\
    list:
    - name: role
      dtype: string
    - name: content
      dtype: string
    - name: tool_calls
      list:
      - name: id
        dtype: string
      - name: type
        dtype: string
      - name: function
        struct:
        - name: name
          dtype: string
        - name: arguments
          dtype: string
    - name: tool_call_id
      dtype: string"""
_METRIC = """\
    list:
    - name: name
      dtype: string
    - name: value
      dtype: float64"""
_TURN = """\
    list:
    - name: prompt_ids
      sequence: int64
    - name: completion_ids
      sequence: int64
    - name: completion_logprobs
      sequence: float64"""
_NESTED: dict[CellType, str] = {"messages": _MESSAGE, "metrics": _METRIC, "turns": _TURN}


@dataclass(slots=True)
class DatasetCounts:
    """What a dataset card says of the rows; rows are counted as they are written."""

    rows: int = 0
    judged: int = 0
    total: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Count a row."""
        self.rows += 1
        self.outcomes[row["outcome"]] += 1
        if row["reward"] is not None:
            self.judged += 1
            self.total += row["reward"]


def dataset_card(name: str, ending: str, counts: DatasetCounts) -> str:
    """The card of a dataset whose files are `data/train-*` with this ending."""
    return "\n".join(
        (
            "---",
            "configs:",
            "- config_name: default",
            "  data_files:",
            "  - split: train",
            f"    path: data/train-*.{ending}",
            "dataset_info:",
            "  features:",
            *_features(),
            "---",
            "",
            f"# {harmless(name)}",
            "",
            *_words(ending, counts),
            "",
            "| Column | Meaning |",
            "|---|---|",
            *(f"| `{column.name}` | {column.meaning} |" for column in COLUMNS),
            "",
        )
    )


def _features() -> Iterator[str]:
    for column in COLUMNS:
        yield f"  - name: {column.name}"
        yield _NESTED.get(column.type) or f"    dtype: {_SCALARS[column.type]}"


def _words(ending: str, counts: DatasetCounts) -> Sequence[str]:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.outcomes.items()))
    judged = f"{counts.judged:,} of {counted(counts.rows, 'row')} have a reward"
    mean = f"; their mean is {counts.total / counts.judged:.4f}" if counts.judged else ""
    loader = "json" if ending == "jsonl" else ending
    return (
        f"Trials of agents, exported by Seatrial. {judged}{mean}. By outcome: {outcomes}.",
        "A trial that could not be run or judged has no reward: it is not a 0.",
        "",
        "```",
        "from datasets import load_dataset",
        "",
        f'rows = load_dataset("{loader}", data_dir="THIS_FOLDER/data", split="train")',
        "```",
        "",
    )
