"""Rollouts on other machines: the environment is sent there once, a row with each trial, an output comes back.

The output is a file beside the others that a trial leaves, so whatever brings those back brings it too. Modules that
were loaded from files of this machine go along with the environment.
"""

import asyncio
import json
import sys
import sysconfig
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from seatrial.env.client import Client, ClientConfig, OpenPolicy, open_client
from seatrial.env.rollout import RolloutPlace, read_info
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, run_row
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
    from seatrial.env.trials import Rollouts


# Modules that go along.

_INSTALLED = ("site-packages", "dist-packages")
_OF_PYTHON = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def modules_of(environment: "Environment") -> list[ModuleType]:
    """The modules of an environment and of its reward functions, and those beside them, but no installed one."""
    kinds = [type(environment), *environment.rubric.get_reward_funcs()]
    names = {str(getattr(kind, "__module__", "")).partition(".")[0] for kind in kinds} - {"seatrial", "__main__"}
    folders = {path.parent for name in names if (path := _file_of(sys.modules.get(name))) is not None}
    return [module for module in [*sys.modules.values()] if _lies_in(folders, _file_of(module))]


class StandIn:
    """Unpickled, it has `import verifiers` give Seatrial there. It goes before what may import it."""

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return stand_in, ()


def stand_in() -> StandIn:
    import_module("seatrial.compat.verifiers").install()  # by its name: it stands above this layer
    import_module("seatrial.compat.finder").behave_alike(alike=True)
    return StandIn()


def _file_of(module: ModuleType | None) -> Path | None:
    """The file of a module, where it is no part of Python or of an installed package."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or any(part in _INSTALLED for part in Path(file).parts):
        return None
    return None if any(Path(file).is_relative_to(folder) for folder in _OF_PYTHON) else Path(file)


def _lies_in(folders: set[Path], file: Path | None) -> bool:
    """Whether a file is in one of the folders; below one only where that is a package."""
    if file is None:
        return False
    return any(
        file.parent == folder or ((folder / "__init__.py").is_file() and folder in file.parents) for folder in folders
    )


# On the other machine.


@dataclass(eq=False, slots=True)
class RemoteRollouts:
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
        assert spec.row is not None  # noqa: S101 - it was sent by RemotePlaces
        row = _moved(json.loads(spec.row), str(spec.task.root))
        result = await run_row(self.environment, row, replace(self.plan, place=RolloutPlace(spec, folder)))
        assert result.record is not None  # noqa: S101 - it has a place
        write_output(folder, await asyncio.to_thread(dump_output, result.output))
        return result.record


def _arrived(_: object, environment: "Environment", plan: RowPlan) -> RemoteRollouts:
    return RemoteRollouts(environment, plan)


# On this machine.


@dataclass(frozen=True, slots=True)
class RemotePlaces:
    """The places of an engine, which an environment was sent to."""

    places: Places
    rollouts: "Rollouts"

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[TrialPlace]:
        async with self.places.place(spec, avoid) as place:
            yield TrialPlace(partial(self._run, place), place.node)

    async def _run(self, place: TrialPlace, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        outputs, row = self.rollouts.outputs, self.rollouts.rows[spec.trial_id]
        outputs.pop(spec.trial_id, None)  # of the try before
        record = await place.run(replace(spec, row=json.dumps(row)), folder, observe)
        try:
            output = await asyncio.to_thread(read_output, folder)
            (folder / ROLLOUT_FILE).unlink()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SandboxError(f"the output of {spec.trial_id} did not come back: {error}") from error
        outputs[spec.trial_id] = _moved(output, _task_dir(row))
        return record


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
async def open_remote_places(plan: "RunPlan", rollouts: "Rollouts", tell: Observer) -> AsyncIterator[RemotePlaces]:
    """The places of the engine that a plan names, for the length of a block. Raises UsageError."""
    engine = make_engine(RunOptions(engine=plan.engine, address=plan.address, concurrent=plan.workers))
    if not isinstance(engine, SendingEngine):
        raise UsageError(f"the engine {plan.engine} runs jobs only; rollouts need one that environments can be sent to")
    _check_rows(plan.rows)
    portable = _portable(rollouts.environment, rollouts.plan)
    async with engine.open_places(portable, _options(rollouts.environment, plan), tell) as places:
        yield RemotePlaces(places, rollouts)


def _options(environment: "Environment", plan: "RunPlan") -> TrialOptions:
    """How rollouts are isolated and judged, and what of this machine's variables they may have: the same for all."""
    for row in plan.rows:
        with suppress(UsageError):  # one without a task is an error of its own rollout
            return environment.trial_spec(row, plan.model).options
    return TrialOptions()


def _portable(environment: "Environment", plan: RowPlan) -> RemoteRollouts:
    """What is sent to other machines; keys that the client has from variables of this one go along."""
    if isinstance(plan.client, OpenPolicy):
        raise UsageError("a Policy is swapped in this process: rollouts on other machines need a client of their own")
    client = plan.client.given if isinstance(plan.client, Client) else plan.client
    sent = client.with_key() if isinstance(client, ClientConfig) else client
    return RemoteRollouts(environment, replace(plan, client=sent, states=None))


def _check_rows(rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        try:
            json.dumps(row)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"row {number} cannot be sent to another machine: {error}") from error
