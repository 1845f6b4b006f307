"""Definition: what an environment is made of, its datasets, rubric, parser and tools, and how it is set up.

Its arguments are those that environments of verifiers take; docs/environments.md says which have no effect here.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from seatrial.env.arguments import constructor_arguments, refuse_unknown
from seatrial.env.monitors import MonitorRubric
from seatrial.env.row_dataset import RowDataset
from seatrial.env.rows import DatasetSource, RowFormat, choose, load_rows
from seatrial.env.rubric import RewardFunc, Rubric
from seatrial.env.rubric_calls import func_name
from seatrial.env.tool_tables import as_tool_tables
from seatrial.errors import UsageError

MessageType = Literal["chat", "completion"]


class Definition:
    """What an environment is made of.

    `dataset` and `eval_dataset` are HuggingFace Datasets, lists of rows, or functions that return one. Rows have a
    `prompt` (messages or text) or a `question`, and whatever else reward functions ask for. `tool_defs`, or
    `oai_tools`, are offered to the model. A rollout ends when a conversation has `max_seq_len` tokens; one counts as
    passed from the reward `pass_threshold` on. Keywords that no class of the chain knows are refused.
    """

    keeps_unknown: ClassVar[bool] = False
    """Whether such keywords become attributes instead, as environments of verifiers expect it."""

    def __init__(  # noqa: PLR0913 - the names that authors of environments know
        self,
        dataset: DatasetSource | None = None,
        eval_dataset: DatasetSource | None = None,
        *,
        system_prompt: str | None = None,
        few_shot: Sequence[Mapping[str, Any]] | None = None,
        parser: Any = None,
        rubric: Rubric | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        message_type: MessageType = "chat",
        tool_defs: Sequence[Any] | None = None,
        oai_tools: Sequence[Any] | None = None,
        max_workers: int = 512,
        env_id: str | None = None,
        env_args: Mapping[str, Any] | None = None,
        map_kwargs: Mapping[str, Any] | None = None,
        max_seq_len: int | None = None,
        interleaved_rollouts: bool = False,
        score_rollouts: bool = True,
        pass_threshold: float = 0.5,
        **unknown: Any,
    ) -> None:
        if not self.keeps_unknown:
            refuse_unknown(type(self).__name__, unknown, constructor_arguments(type(self)))
        if dataset is None and eval_dataset is None:
            raise UsageError(f"{type(self).__name__} needs a dataset or an eval_dataset")
        self.logger = logging.getLogger(f"{__name__}.{type(self).__name__}")
        self.dataset_source = dataset
        self.eval_dataset_source = eval_dataset
        self._rows: dict[str, RowDataset] = {}
        self.system_prompt = system_prompt
        self.few_shot = few_shot
        self.rubric = rubric or Rubric()
        self.parser = parser if parser is not None else _parser_of(self.rubric)
        self.sampling_args = dict(sampling_args or {})
        self.message_type = message_type
        self.tool_defs = _tools(tool_defs, oai_tools)
        self.max_workers = max_workers
        self.env_id = env_id or ""
        self.env_args = dict(env_args or {})
        self.map_kwargs = dict(map_kwargs or {})
        Definition.set_max_seq_len(self, max_seq_len)
        self.interleaved_rollouts = interleaved_rollouts
        self.score_rollouts = score_rollouts
        self.pass_threshold = pass_threshold
        self.concurrency: int | None = None
        self._keep(unknown)

    def _keep(self, unknown: Mapping[str, Any]) -> None:
        for name, value in unknown.items():
            self.logger.warning("%s does nothing with %s; it is kept as an attribute", type(self).__name__, name)
            setattr(self, name, value)

    @property
    def dataset(self) -> Any:
        """The rows to train on, loaded when first asked for; None when there are none. It may be set to others."""
        return self.build_dataset()

    @dataset.setter
    def dataset(self, source: DatasetSource | None) -> None:
        self.dataset_source = source
        self._rows.pop("dataset", None)

    @property
    def eval_dataset(self) -> Any:
        """The rows to evaluate on, as `dataset`."""
        return self.build_eval_dataset()

    @eval_dataset.setter
    def eval_dataset(self, source: DatasetSource | None) -> None:
        self.eval_dataset_source = source
        self._rows.pop("eval_dataset", None)

    def build_dataset(self) -> RowDataset | None:
        """Load the rows to train on, if that has not been done. Raises UsageError for a row that cannot be used."""
        return None if self.dataset_source is None else self._load("dataset", self.dataset_source)

    def build_eval_dataset(self) -> RowDataset | None:
        """Load the rows to evaluate on, as `build_dataset`."""
        return None if self.eval_dataset_source is None else self._load("eval_dataset", self.eval_dataset_source)

    def get_dataset(self, n: int = -1, seed: int | None = None) -> RowDataset:
        """The first `n` rows to train on, or all; shuffled if there is a seed. Raises UsageError without a dataset."""
        rows = self.build_dataset()
        if rows is None:
            raise UsageError(f"{type(self).__name__} has no dataset")
        return choose(rows, n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> RowDataset:
        """The first `n` rows to evaluate on, or all; those to train on when there are no others."""
        rows = self.build_eval_dataset()
        return self.get_dataset(n, seed) if rows is None else choose(rows, n, seed)

    def add_rubric(self, rubric: Rubric) -> None:
        """Add the functions of another rubric to those of this environment."""
        self.rubric = self.rubric.plus(rubric)

    def add_monitors(self, *metrics: RewardFunc) -> None:
        """Report metrics beside the reward, but for those that the rubric has by the same names already."""
        if not isinstance(self.rubric, Rubric):  # something else that scores, on its own
            return
        known = self.rubric.get_reward_func_names()
        if new := [metric for metric in metrics if func_name(metric) not in known]:
            self.add_rubric(MonitorRubric(new, [0.0] * len(new)))

    @property
    def oai_tools(self) -> list[dict[str, Any]] | None:
        """The tools as chat completions take them. Raises UsageError for one that is none."""
        return as_tool_tables(self.tool_defs)

    @oai_tools.setter
    def oai_tools(self, tools: Sequence[Any] | None) -> None:
        self.tool_defs = None if tools is None else list(tools)

    @property
    def requires_group_rollouts(self) -> bool:
        """Whether a rollout can only be scored together with the others of its row."""
        return bool(getattr(self.rubric, "has_group_rewards", False))

    @property
    def provides_advantages(self) -> bool:
        """Whether the rubric itself says what rollouts are worth beside each other."""
        return bool(getattr(self.rubric, "has_advantages", False))

    def set_kwargs(self, **values: Any) -> None:
        """Set what trainers set, each by its `set_…` method or as an attribute. Raises UnknownArgumentError."""
        known = [name for name in dir(self) if not name.startswith("_")]
        setters = [name.removeprefix("set_") for name in known if name.startswith("set_")]
        refuse_unknown("set_kwargs", [name for name in values if name not in [*known, *setters]], [*known, *setters])
        for name, value in values.items():
            setter = getattr(self, f"set_{name}", None)
            if setter is None:
                setattr(self, name, value)
            else:
                setter(value)

    def set_max_seq_len(self, max_seq_len: int | None) -> None:
        """Set how many tokens the conversation of a rollout may have; None for any number. Raises UsageError."""
        if max_seq_len is not None and max_seq_len < 1:
            raise UsageError(f"max_seq_len is {max_seq_len}, expected at least 1, or None for no such limit")
        self.max_seq_len: int | None = max_seq_len

    def set_score_rollouts(self, score_rollouts: bool) -> None:  # noqa: FBT001 - as trainers call it
        """Set whether rollouts are scored."""
        self.score_rollouts = score_rollouts

    def set_concurrency(self, concurrency: int) -> None:
        """Set how many rollouts run at once where a call does not say."""
        self.concurrency = concurrency

    def set_interleaved_rollouts(self, interleaved_rollouts: bool) -> None:  # noqa: FBT001 - as above
        """Kept for those who ask: `training_rows.interleaved` makes one sequence of any rollout."""
        self.interleaved_rollouts = interleaved_rollouts

    @property
    def _format(self) -> RowFormat:
        return RowFormat(self.env_id or "default", self.system_prompt, tuple(self.few_shot or ()))

    def _load(self, name: str, source: DatasetSource) -> RowDataset:
        if name not in self._rows:
            self._rows[name] = load_rows(source, self._format)
        return self._rows[name]


def _tools(tool_defs: Sequence[Any] | None, oai_tools: Sequence[Any] | None) -> list[Any] | None:
    if tool_defs is not None and oai_tools is not None:
        raise UsageError("tool_defs and oai_tools are two names for the tools of the model: give one of them")
    given = oai_tools if tool_defs is None else tool_defs
    as_tool_tables(given)
    return None if given is None else list(given)


def _parser_of(rubric: Rubric) -> Any:
    return getattr(rubric, "parser", None)
