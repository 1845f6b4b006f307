"""Environment: a dataset, a rubric, and the rollouts of a model on them.

What a rollout is, subclasses say. Here is how they are asked for: by those who evaluate, and by those who train.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from seatrial.concurrency import complete
from seatrial.env.arguments import refuse_unknown, whole_number
from seatrial.env.evaluation_options import EvaluationOptions, takes_options
from seatrial.env.leases import open_model
from seatrial.env.lifecycle import Lifecycle
from seatrial.env.policy import Policy
from seatrial.env.results import Output, Results
from seatrial.env.row_dataset import RowDataset
from seatrial.env.rows import DatasetSource, Row, format_row, load_rows, require_rows
from seatrial.env.running import RunPlan, run_rollouts
from seatrial.env.streaming import StreamPlan, stream_outputs
from seatrial.errors import UsageError

T = TypeVar("T")

_BEFORE_0_2 = ("gen_sampling_args", "gen_sem", "score_sem", "score", "env_client")
"""What `run_rollout` and `run_group` took in some releases of verifiers."""


@dataclass(frozen=True, slots=True)
class _Asked:
    client: Any
    model: str
    sampling_args: Mapping[str, Any] | None
    max_concurrent: int = -1


class Environment(Lifecycle):
    """Base of all environments; what may be said when one is made is in Definition."""

    @takes_options
    async def generate(
        self,
        inputs: DatasetSource,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_concurrent: int = -1,
        **options: Any,
    ) -> Results:
        """Roll out each of the rows given, in their order; see `evaluate`. Those of one `example_id` are a group."""
        chosen = EvaluationOptions.read(Environment.generate, options)
        rows = load_rows(inputs, self._format)
        if chosen.order is not None:
            rows = rows.shuffle(chosen.order)
        return await self._run(self._plan(rows, _Asked(client, model, sampling_args, max_concurrent), chosen), client)

    @takes_options
    async def evaluate(
        self,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        num_examples: int = -1,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        **options: Any,
    ) -> Results:
        """Roll out the first rows to evaluate on, each `rollouts_per_example` times, and score each rollout.

        `client` is a ClientConfig, a client with `chat.completions.create`, a function of the messages, the name of
        an upstream, or a Policy. Returns `{"outputs": [...], "metadata": {...}}`, the rollouts of one row next to each
        other. What goes wrong with one rollout is on its output and in the counts, never in the mean. With `save_to`
        each is stored there when it ends, and with `resume` those that are there already are not run again. Rollouts
        that are trials are tried again up to `retries` times when the machinery fails in a way that may pass; they run
        where `engine` says, at its `address` if it has one. The other options are in EvaluationOptions.

        Raises UsageError before anything starts, StoreError when rollouts cannot be stored. When cancelled, what runs
        is cleaned up first.
        """
        chosen = EvaluationOptions.read(Environment.evaluate, options)
        each = whole_number("rollouts_per_example", rollouts_per_example, 1)
        examples = self.get_eval_dataset(whole_number("num_examples", num_examples), chosen.order)
        rows = RowDataset(row for row in examples for _ in range(each))
        return await self._run(self._plan(rows, _Asked(client, model, sampling_args, max_concurrent), chosen), client)

    def generate_sync(self, inputs: DatasetSource, client: Any, model: str, *args: Any, **options: Any) -> Results:
        """`generate`, waited for; also where an event loop is running, as in a notebook."""
        return complete(lambda: self.generate(inputs, client, model, *args, **options))

    def evaluate_sync(self, client: Any, model: str, *args: Any, **options: Any) -> Results:
        """`evaluate`, waited for; also where an event loop is running, as in a notebook."""
        return complete(lambda: self.evaluate(client, model, *args, **options))

    async def run_rollout(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name that trainers know
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
        **others: Any,
    ) -> Output:
        """Roll out one row and score it alone. What goes wrong is the `error` of its output; see `evaluate`."""
        given = _Asked(client, model, _of_trainers("run_rollout", others, sampling_args), 1)
        options = EvaluationOptions(max_retries=max_retries, state_columns=state_columns, independent_scoring=True)
        (output,) = await self._rolled_out([format_row(input, 0, self._format)], given, options, others.get("gen_sem"))
        return output

    async def run_group(
        self,
        group_inputs: Sequence[Mapping[str, Any]],
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        max_retries: int = 0,
        state_columns: Sequence[str] | None = None,
        **others: Any,
    ) -> list[Output]:
        """Roll out some rows side by side and score them as one group, each with an `advantage`; see `evaluate`.

        One that fails has an `error`, and the others are compared without it.
        """
        given = _Asked(client, model, _of_trainers("run_group", others, sampling_args), max(1, len(group_inputs)))
        options = EvaluationOptions(max_retries=max_retries, state_columns=state_columns)
        rows = [format_row(row, 0, self._format) for row in group_inputs]
        return await self._rolled_out(rows, given, options, others.get("gen_sem"))

    def stream(
        self,
        inputs: DatasetSource | int,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        **options: Any,
    ) -> AsyncGenerator[Output, None]:
        """Outputs as they end, for `async for`; leaving the loop cancels what runs and cleans it up.

        `inputs` are rows, of which there may be no end, or a number: the first rows to train on, -1 for all. At most
        `max_concurrent` rollouts run or wait to be taken, so that a slow reader slows them down. Where the rubric
        scores groups, those of one row come out one after the other when the last of them has ended. Options are those
        of `evaluate`. Raises UsageError.
        """
        asked = _Asked(client, model, sampling_args, max_concurrent)
        plan = self._stream_plan(inputs, rollouts_per_example, asked, options)
        return _one_by_one(stream_outputs(self, plan, client))

    def stream_groups(
        self,
        inputs: DatasetSource | int,
        client: Any,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        rollouts_per_example: int = 1,
        max_concurrent: int = -1,
        **options: Any,
    ) -> AsyncGenerator[list[Output], None]:
        """As `stream`, with the outputs of one row as a list when all have ended, each with its `advantage`."""
        asked = _Asked(client, model, sampling_args, max_concurrent)
        plan = self._stream_plan(inputs, rollouts_per_example, asked, options)
        return stream_outputs(self, replace(plan, whole_groups=True), client)

    async def _run(self, plan: RunPlan, client: Any) -> Results:
        async with open_model(client) as opened:
            return await run_rollouts(self, plan, opened)

    async def _rolled_out(
        self,
        rows: list[Row],
        asked: _Asked,
        options: EvaluationOptions,
        limit: AbstractAsyncContextManager[object] | None,
    ) -> list[Output]:
        plan = replace(self._plan(rows, asked, options), one_group=True)
        async with limit or nullcontext():
            return (await self._run(plan, asked.client))["outputs"]

    def _plan(self, rows: Sequence[Row], asked: _Asked, options: EvaluationOptions) -> RunPlan:
        wanted = whole_number("max_concurrent", asked.max_concurrent)
        limits = [wanted, options.max_concurrent_generation or -1, self.concurrency or -1]
        return RunPlan(
            rows=rows,
            model=asked.model,
            sampling_args={**self.sampling_args, **(asked.sampling_args or {})},
            max_concurrent=next((each for each in limits if each > 0), -1),
            state_columns=options.columns,
            save_to=options.folder(self.env_id, asked.model),
            resume=options.goes_on,
            retries=options.trial_retries,
            engine=options.engine,
            address=options.address,
            row_retries=options.max_retries or 0,
            in_groups=(self.requires_group_rollouts or self.provides_advantages) and not options.independent_scoring,
            order=options.order,
            base_url=_address_of(asked.client),
            on_start=options.on_start,
            listeners=options.listeners,
            on_log=options.on_log,
        )

    def _stream_plan(
        self, inputs: DatasetSource | int, each: int, asked: _Asked, options: Mapping[str, Any]
    ) -> StreamPlan:
        chosen = EvaluationOptions.read(Environment.stream, options)
        whole_number("rollouts_per_example", each, 1)
        rows = self._rows_to_stream(inputs, chosen)
        kept = [row for row in rows for _ in range(each)] if isinstance(rows, RowDataset) else []
        run = self._plan(kept, asked, chosen)
        if not isinstance(rows, RowDataset) and (run.save_to is not None or run.engine != "local"):
            raise UsageError("rows that come one by one run on this machine and are not stored; give a list of them")
        return StreamPlan(rows, each, run, whole_groups=run.in_groups)

    def _rows_to_stream(self, inputs: DatasetSource | int, options: EvaluationOptions) -> RowDataset | Iterator[Row]:
        if isinstance(inputs, int):
            return self.get_dataset(inputs, options.order)
        given = inputs() if callable(inputs) else inputs
        if hasattr(given, "__len__"):
            rows = load_rows(given, self._format)
            return rows if options.order is None else rows.shuffle(options.order)
        require_rows(given)
        return (format_row(row, number, self._format) for number, row in enumerate(given))


async def _one_by_one(groups: AsyncGenerator[list[T], None]) -> AsyncGenerator[T, None]:
    async with aclosing(groups):
        async for group in groups:
            for output in group:
                yield output


def _of_trainers(
    name: str, others: Mapping[str, Any], sampling_args: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The sampling arguments, by whichever name they come. Raises UsageError for anything that is not known at all."""
    unknown = [each for each in others if each not in _BEFORE_0_2]
    refuse_unknown(name, unknown, ["sampling_args", "max_retries", "state_columns", *_BEFORE_0_2])
    given: Mapping[str, Any] | None = others.get("gen_sampling_args", sampling_args)
    return given


def _address_of(client: Any) -> str:
    """Where a client's requests go, if it says so."""
    given = client.client if isinstance(client, Policy) else client
    return str(getattr(given, "base_url", None) or "")
