"""The model of a job: its upstream is opened once, and every trial gets a session of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.pricing import load_prices
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.open import make_upstream, open_upstream
from seatrial.jobs.attempt import TrialRunner
from seatrial.model.job import ModelOptions
from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import SandboxBackend
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec


def check_model(options: ModelOptions) -> None:
    """Raise UsageError for an upstream or a price list that cannot be used, before anything starts."""
    if options.upstream is not None:
        make_upstream(options.upstream)
    load_prices(Path(options.prices) if options.prices else None)


@asynccontextmanager
async def model_access(options: ModelOptions) -> AsyncIterator[ModelAccess | None]:
    """What the trials of a job need to reach their model, for the length of a block; None when there is none."""
    if options.upstream is None:
        yield None
        return
    limits = SessionOptions(
        sampling=options.sampling,
        max_turns=options.max_turns,
        max_tokens=options.max_tokens,
        max_cost_usd=options.max_cost_usd,
    )
    prices = load_prices(Path(options.prices) if options.prices else None)
    async with open_upstream(options.upstream) as upstream:
        yield ModelAccess(upstream, limits, prices)


def with_model(run: TrialRunner, access: ModelAccess | None) -> TrialRunner:
    """A runner of trials whose agents have access to the model."""

    async def run_with_model(spec: TrialSpec, backend: SandboxBackend, folder: Path, observe: Observer) -> TrialRecord:
        return await run(replace(spec, model=access), backend, folder, observe)

    return run_with_model if access else run
