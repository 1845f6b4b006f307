"""Example datasets by their short names. All of them are on a hub, so this needs the `datasets` package and a network.

Only datasets that environments load by these names are here; any other is loaded by `datasets.load_dataset`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.env.parsers.answers import extract_boxed_answer, extract_hash_answer
from seatrial.errors import UsageError

BOXED_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."
THINK_BOXED_SYSTEM_PROMPT = (
    "Think step by step inside <think>...</think> tags, then give your final answer inside \\boxed{}."
)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a dataset is, and how a row of it becomes a question and an answer."""

    path: str
    config: str | None
    split: str
    question: str
    answer: Callable[[Mapping[str, Any]], str]


_SOURCES = {
    "aime2024": _Source("HuggingFaceH4/aime_2024", None, "train", "problem", lambda row: str(int(row["answer"]))),
    "amc2023": _Source("knoveleng/AMC-23", None, "train", "problem", lambda row: str(row["answer"])),
    "gsm8k": _Source("openai/gsm8k", "main", "test", "question", lambda row: extract_hash_answer(row["answer"])),
    "math": _Source(
        "chiayewken/competition_math", None, "train", "problem", lambda row: extract_boxed_answer(row["solution"])
    ),
    "math500": _Source("HuggingFaceH4/MATH-500", None, "test", "problem", lambda row: str(row["answer"])),
    "openrs": _Source("knoveleng/open-rs", None, "train", "problem", lambda row: str(row["answer"])),
}


def load_example_dataset(name: str = "gsm8k", split: str | None = None, n: int | None = None, seed: int = 0) -> Any:
    """A HuggingFace Dataset with `question` and `answer`; `n` rows of it, shuffled by the seed, if n is given.

    Raises UsageError for another name, without the package, and when the hub does not answer.
    """
    source = _SOURCES.get(name)
    if source is None:
        raise UsageError(
            f"load_example_dataset({name!r}): there are {', '.join(_SOURCES)}; load others with datasets.load_dataset"
        )
    dataset = _load(name, source)[split or source.split]
    if n is not None and n > 0:
        dataset = dataset.shuffle(seed=seed).select(range(n))
    return dataset.map(
        lambda row: {"question": row[source.question], "answer": source.answer(row)},
        remove_columns=dataset.column_names,
    )


def _load(name: str, source: _Source) -> Any:
    try:
        import datasets  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise UsageError(f"load_example_dataset({name!r}) needs datasets: pip install 'seatrial[hf]'") from None
    try:
        return datasets.load_dataset(source.path, source.config)
    except Exception as error:
        raise UsageError(
            f"load_example_dataset({name!r}) got nothing from the hub ({type(error).__name__}: {error}); it needs a "
            "network, or rows of your own: dataset=[{'question': ..., 'answer': ...}]"
        ) from error
