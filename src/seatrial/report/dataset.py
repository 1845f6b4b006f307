"""Trials as a dataset for training and analysis: its rows, its files, and the README.md that explains them.

Every row has every column, and each column one type, so that any reader of tables can load them: what a model was asked
and said in a trial, and what that was worth.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from seatrial.analysis.tables import Table
from seatrial.model.outcome import SCORED_OUTCOMES, format_mean
from seatrial.model.record import TrialRecord
from seatrial.report.export import TrialTalk, find_talks, training_lines
from seatrial.report.markdown import markdown_table
from seatrial.report.text import counted, harmless, utf8_text, utf8_value
from seatrial.trajectories.threads import MAIN, find_threads
from seatrial.trajectories.tokens import read_tokens
from seatrial.untrusted.json import dump

CellType = Literal["text", "integer", "number", "messages", "metrics", "turns"]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DatasetColumn:
    """A column, the type of its values, and what they mean. What is not known is null."""

    name: str
    type: CellType
    meaning: str


COLUMNS = (
    DatasetColumn("prompt", "messages", "what the model was told before its first answer"),
    DatasetColumn("completion", "messages", "everything from its first answer on, with what its tools gave back"),
    DatasetColumn("tools", "text", "definitions of the tools it could call, as JSON"),
    DatasetColumn("reward", "number", "the reward; null where the trial was not judged"),
    DatasetColumn("outcome", "text", "what the trial amounts to"),
    DatasetColumn("task", "text", "the id of the task"),
    DatasetColumn("task_digest", "text", "which content of the task it was"),
    DatasetColumn("step", "text", "the step of a task that has several"),
    DatasetColumn("attempt", "integer", "which attempt of the agent at the task, from 1"),
    DatasetColumn("agent", "text", "the agent"),
    DatasetColumn("model", "text", "the model that answered"),
    DatasetColumn("thread", "text", "which of the agent's conversations it is"),
    DatasetColumn("metrics", "metrics", "the other numbers that the verifier gave"),
    DatasetColumn("input_tokens", "integer", "tokens that the model was told, in all calls of the trial"),
    DatasetColumn("output_tokens", "integer", "tokens that it said"),
    DatasetColumn("cost_usd", "number", "what that cost"),
    DatasetColumn("tokens", "turns", "for each answer its token ids and log probabilities, where the server told them"),
    DatasetColumn("error", "text", "why the trial could not be run"),
    DatasetColumn("trial_id", "text", "the trial"),
    DatasetColumn("job", "text", "the job it is of"),
)
"""New columns come at the end; none is given another meaning."""


def dataset_rows(record: TrialRecord, folder: Path, threads: Literal["main", "all"] = "main") -> Iterator[Row]:
    """The rows of a trial: one for each of its conversations, and one without any for a trial that has none.

    Raises OSError, or ValueError for damaged calls.
    """
    talks = find_talks(record, folder)
    rows = [row for talk in talks for row in _talk_rows(talk, threads)]
    yield from rows or [_row(record, None, {}, {})]


def _talk_rows(talk: TrialTalk, threads: Literal["main", "all"]) -> Iterator[Row]:
    turns = _turns(talk)
    for made in training_lines(talk, threads=threads):
        row = _row(talk.record, talk.step, made.line, made.facts)
        if made.facts["thread"] == MAIN and made.facts["part"] == 1:
            row["tokens"] = turns
        yield row


def _row(record: TrialRecord, step: str | None, line: dict[str, Any], facts: dict[str, Any]) -> Row:
    messages = [_message(message) for message in line.get("messages", ())]
    first = next((at for at, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    judged = next((each.evaluation for each in record.steps if each.name == step), None) if step else record.evaluation
    counts = judged is not None and record.outcome in SCORED_OUTCOMES
    usage, failure = record.model_usage, record.failure
    return {
        "prompt": messages[:first],
        "completion": messages[first:],
        "tools": dump(line["tools"]) if line.get("tools") else None,
        "reward": judged.reward if judged and counts else None,
        "outcome": record.outcome,
        "task": utf8_text(record.task.id),
        "task_digest": record.task.digest,
        "step": step and utf8_text(step),
        "attempt": record.attempt,
        "agent": utf8_text(record.agent.name),
        "model": utf8_value(facts.get("model") or record.agent.model),
        "thread": facts.get("thread"),
        "metrics": _metrics(judged.breakdown if judged else None),
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost_usd": usage.cost_usd if usage else None,
        "tokens": [],
        "error": utf8_text(f"{failure.cause}: {failure.message}") if failure else None,
        "trial_id": record.trial_id,
        "job": record.job,
    }


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """A message with every key, since a column has one type; pictures and the like are JSON in its content."""
    content = message.get("content")
    return {
        "role": message["role"],
        "content": utf8_text(content) if isinstance(content, str) else content and dump(content),
        "tool_calls": [
            {"id": call["id"], "type": "function", "function": utf8_value(call["function"])}
            for call in message.get("tool_calls", ())
        ],
        "tool_call_id": utf8_value(message.get("tool_call_id")),
    }


def _metrics(breakdown: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The numbers of a breakdown, and the scores of its parts."""
    found = []
    for name, value in (breakdown or {}).items():
        number = value.get("score") if isinstance(value, dict) else value
        if isinstance(number, int | float) and not isinstance(number, bool):
            found.append({"name": utf8_text(name), "value": float(number)})
    return found


def _turns(talk: TrialTalk) -> list[dict[str, Any]]:
    """The tokens of each answer of the main conversation; none unless the server told them of every one."""
    main = [thread for thread in find_threads(talk.calls()) if thread.name == MAIN]
    told = [read_tokens(each.call.response or {}) for thread in main for each in thread.calls if each.taken]
    known = [each for each in told if each is not None]
    if not known or len(known) < len(told):
        return []
    return [
        {
            "prompt_ids": list(each.prompt_ids),
            "completion_ids": list(each.completion_ids),
            "completion_logprobs": list(each.logprobs),
        }
        for each in known
    ]


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
    rows = [(f"`{column.name}`", column.meaning) for column in COLUMNS]
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
            markdown_table(Table(("Column", "Meaning"), rows, names=2)),
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
    mean = f"; their mean is {format_mean(counts.total / counts.judged, '.4f')}" if counts.judged else ""
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


ROWS_PER_FILE = 20_000
_ROWS_AT_ONCE = 500


def write_dataset_files(rows: Iterable[Row], folder: Path) -> str:
    """Write `train-00000`, `train-00001` and so on into a folder, some rows at a time. Returns the files' ending."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and not everybody has it
    except ImportError:
        pa = None
    folder.mkdir()
    for number, some in enumerate(_parts(iter(rows), ROWS_PER_FILE)):
        if pa is None:
            _write_lines(some, folder / f"train-{number:05}.jsonl")
        else:
            _write_parquet(pa, some, folder / f"train-{number:05}.parquet")
    return "jsonl" if pa is None else "parquet"


def _parts(rows: Iterator[Row], size: int) -> Iterator[Iterator[Row]]:
    """The rows in parts, each of which is to be read before the next."""
    for first in rows:
        yield chain((first,), islice(rows, size - 1))


def _write_lines(rows: Iterable[Row], path: Path) -> None:
    with path.open("xb") as file:
        for row in rows:
            file.write(dump(row).encode() + b"\n")


def _write_parquet(pa: Any, rows: Iterator[Row], path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    schema = _schema(pa)
    with path.open("xb") as file, pq.ParquetWriter(file, schema) as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


def _schema(pa: Any) -> Any:
    text = pa.string()
    function = pa.struct([("name", text), ("arguments", text)])
    call = pa.struct([("id", text), ("type", text), ("function", function)])
    message = pa.struct([("role", text), ("content", text), ("tool_calls", pa.list_(call)), ("tool_call_id", text)])
    ids, logprobs = pa.list_(pa.int64()), pa.list_(pa.float64())
    turn = pa.struct([("prompt_ids", ids), ("completion_ids", ids), ("completion_logprobs", logprobs)])
    types = {
        "text": text,
        "integer": pa.int64(),
        "number": pa.float64(),
        "messages": pa.list_(message),
        "metrics": pa.list_(pa.struct([("name", text), ("value", pa.float64())])),
        "turns": pa.list_(turn),
    }
    return pa.schema([(column.name, types[column.type]) for column in COLUMNS])
