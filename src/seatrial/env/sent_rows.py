"""Rollouts on other machines: the environment is sent there once, a row with each trial, an output comes back.

The output is a file beside the others that a trial leaves, so whatever brings those back brings it too.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from seatrial.env.client import Client, open_client
from seatrial.env.client_config import ClientConfig
from seatrial.env.leases import OpenPolicy
from seatrial.env.rollout import RolloutPlace
from seatrial.env.row_places import RowPlace
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, RowResult, run_row
from seatrial.env.sent_modules import StandIn, modules_of
from seatrial.env.state import read_info
from seatrial.env.stored import ROLLOUT_FILE, dump_output, read_output, write_output
from seatrial.errors import SandboxError, UsageError
from seatrial.jobs.engine import SendingEngine, make_engine
from seatrial.jobs.places import Places, TrialPlace
from seatrial.model.job import RunOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan


@dataclass(eq=False, slots=True)
class SentRollouts:
    """An environment on the machine it was sent to, and how its rows are rolled out there.

    `client` is what `evaluate` was given; there it is opened once.
    """

    environment: "Environment"
    plan: RowPlan

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        first = StandIn() if self.environment.keeps_unknown else None
        return _arrived, (first, self.environment, self.plan)

    @property
    def modules(self) -> list[ModuleType]:
        """The modules that go along, because only this machine has them."""
        return modules_of(self.environment)

    @property
    def images(self) -> tuple[str, ...]:
        """The image for tasks that name none."""
        image = getattr(self.environment, "docker_image", None)
        return (image,) if image else ()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the client and the environment's sandboxes open, for the length of a block. Raises UsageError."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(open_client(self.plan.client))
            self.plan = replace(self.plan, client=client)
            await stack.enter_async_context(self.environment)
            await stack.enter_async_context(self.environment.in_use())
            yield

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Roll out the row of a trial; its output is in the folder too."""
        assert spec.row is not None  # noqa: S101 - it was sent by SentRows
        row = _moved(json.loads(spec.row), str(spec.task.root))
        result = await run_row(self.environment, row, replace(self.plan, place=RolloutPlace(spec, folder)))
        assert result.record is not None  # noqa: S101 - it has a place
        write_output(folder, await asyncio.to_thread(dump_output, result.output))
        return result.record


def _arrived(_: object, environment: "Environment", plan: RowPlan) -> SentRollouts:
    return SentRollouts(environment, plan)


@dataclass(frozen=True, slots=True)
class SentRows:
    """The places of an engine, which an environment was sent to."""

    places: Places

    @property
    def slots(self) -> int:
        """How many rollouts can run at once."""
        return self.places.slots

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[RowPlace]:
        """Room on a machine."""
        async with self.places.place(spec, avoid) as place:
            yield _SentRow(place)


@dataclass(frozen=True, slots=True)
class _SentRow:
    place: TrialPlace

    @property
    def node(self) -> str | None:
        return self.place.node

    async def run(self, row: Row, spec: TrialSpec, folder: Path, observe: Observer) -> RowResult:
        """Have the row rolled out there. Raises what the engine raises, and SandboxError without an output."""
        record = await self.place.run(replace(spec, row=json.dumps(row)), folder, observe)
        try:
            output = await asyncio.to_thread(read_output, folder)
            (folder / ROLLOUT_FILE).unlink()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SandboxError(f"the output of {spec.trial_id} did not come back: {error}") from error
        return RowResult(_moved(output, _task_dir(row)), record)


def _task_dir(row: Row) -> str | None:
    info = read_info(row)
    folder = info.get("task_dir") if isinstance(info, dict) else None
    return folder if isinstance(folder, str) else None


def _moved(table: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """A row or an output whose task lies in another folder here."""
    if folder is None or _task_dir(table) is None:
        return table
    return {**table, "info": {**read_info(table), "task_dir": folder}}


@asynccontextmanager
async def open_sent_rows(
    environment: "Environment", plan: "RunPlan", row_plan: RowPlan, tell: Observer
) -> AsyncIterator[SentRows]:
    """The places of the engine that a plan names, for the length of a block. Raises UsageError."""
    engine = make_engine(RunOptions(engine=plan.engine, address=plan.address, concurrent=plan.workers))
    if not isinstance(engine, SendingEngine):
        raise UsageError(f"the engine {plan.engine} runs jobs only; rollouts need one that environments can be sent to")
    _check_rows(plan.rows)
    async with engine.open_places(_portable(environment, row_plan), _options(environment, plan), tell) as places:
        yield SentRows(places)


def _options(environment: "Environment", plan: "RunPlan") -> TrialOptions:
    """How rollouts are isolated and judged, and what of this machine's variables they may have: the same for all."""
    for row in plan.rows:
        with suppress(UsageError):  # one without a task is an error of its own rollout
            return environment.trial_spec(row, plan.model).options
    return TrialOptions()


def _portable(environment: "Environment", plan: RowPlan) -> SentRollouts:
    """What is sent to other machines; keys that the client has from variables of this one go along."""
    if isinstance(plan.client, OpenPolicy):
        raise UsageError("a Policy is swapped in this process: rollouts on other machines need a client of their own")
    client = plan.client.given if isinstance(plan.client, Client) else plan.client
    sent = client.with_key() if isinstance(client, ClientConfig) else client
    return SentRollouts(environment, replace(plan, client=sent, states=None))


def _check_rows(rows: Sequence[Row]) -> None:
    """Raise UsageError for a row that cannot be sent."""
    for number, row in enumerate(rows):
        try:
            json.dumps(row)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"row {number} cannot be sent to another machine: {error}") from error
