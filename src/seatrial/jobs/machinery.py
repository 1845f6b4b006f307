"""The one place that opens what trials need: sandboxes, images and the way to a model.

For jobs, single trials, regrades and environments. Images and upstreams are opened only where they are wanted: most
jobs on this machine's own system need no image, and a job without a model no HTTP client. Whether a model can be used
is checked here before anything starts.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.agents.api import make_agent, needs_model
from seatrial.backends.named import AutoBackend, find_backend, make_backend
from seatrial.errors import JobError
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.resolver import ImageResolver, ImageSource, open_resolver
from seatrial.jobs.admission import LimitedStarts, cores
from seatrial.model.base import name_at, provider_of
from seatrial.model.events import Notice, Observer, unobserved
from seatrial.model.job import WITHOUT_MODEL, AgentOptions, JobSpec, ModelOptions, TrialOptions
from seatrial.sandbox.api import Image, SandboxBackend
from seatrial.sandbox.trust import STRAIGHT, WayOut
from seatrial.trial.spec import Machinery

if TYPE_CHECKING:
    from seatrial.gateway.access import ModelAccess

_USUAL = TrialOptions()
_NO_MODEL = ModelOptions()


@asynccontextmanager
async def open_machinery(
    backend: str | SandboxBackend,
    options: TrialOptions = _USUAL,
    model: ModelOptions = _NO_MODEL,
    *,
    observe: Observer[Notice] = unobserved,
    starting: int | None = None,
) -> AsyncIterator[Machinery]:
    """What trials need, for the length of a block. `backend` is a name, or a backend that somebody else has opened.

    At most `starting` sandboxes of a named backend are made at the same time. Raises UsageError or SandboxError.
    """
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(make_backend(backend)) if isinstance(backend, str) else backend
        way_out = WayOut(options.ca_file, options.proxy)
        images = await stack.enter_async_context(open_images(opened, observe, way_out))
        access = await stack.enter_async_context(model_access(model, options.ca_file))
        asked = await stack.enter_async_context(verifier_access(options, model.prices))
        limited = LimitedStarts(opened, starting or 2 * cores()) if isinstance(backend, str) else opened
        yield Machinery(limited, images, access, asked)


# Images: where the backend gets them from.


@asynccontextmanager
async def open_images(
    backend: SandboxBackend, observe: Observer[Notice] = unobserved, way_out: WayOut = STRAIGHT
) -> AsyncIterator[ImageResolver]:
    """The images for an open backend, for the length of a block; `way_out` is what builds and set-ups reach."""
    backend = backend.chosen if isinstance(backend, AutoBackend) else backend
    plugin = find_backend((await backend.probe()).backend)
    open_source = plugin.open_images if plugin else None
    async with AsyncExitStack() as stack:
        source = _OnDemand(lambda: open_source(backend, way_out), stack) if open_source else None
        yield await stack.enter_async_context(open_resolver(source, observe))


class _OnDemand:
    """A source that is opened when the first image is wanted, and stays open for the job."""

    def __init__(
        self, open_source: Callable[[], AbstractAsyncContextManager[ImageSource]], job: AsyncExitStack
    ) -> None:
        self._open = open_source
        self._job = job
        self._opening = asyncio.Lock()
        self._source: ImageSource | None = None

    @property
    def has_host(self) -> bool:
        """Only an open source can tell. The question comes up when fetching has failed, so it is open by then."""
        return self._source is not None and self._source.has_host

    async def _opened(self) -> ImageSource:
        async with self._opening:
            if self._source is None:
                self._source = await self._job.enter_async_context(self._open())
            return self._source

    async def fetch(self, reference: str, observe: Observer[Notice]) -> Image:
        return await (await self._opened()).fetch(reference, observe)

    async def build(self, request: ImageRequest, policy: ImagePolicy, observe: Observer[Notice]) -> Image:
        return await (await self._opened()).build(request, policy, observe)

    async def extend(self, image: Image, setup: Setup, observe: Observer[Notice]) -> Image:
        return await (await self._opened()).extend(image, setup, observe)


# The model: its upstream is opened once, and every trial gets a session of its own.

_UPSTREAMS = "add --upstream openai, --upstream anthropic, --upstream google or --upstream https://HOST/v1"


@asynccontextmanager
async def model_access(options: ModelOptions, ca_file: str | None = None) -> AsyncIterator["ModelAccess | None"]:
    """What the trials of a job need to reach their model, for the length of a block; None when there is none."""
    if options.upstream is None:
        yield None
        return
    from seatrial.gateway.access import ModelAccess  # noqa: PLC0415 - as above
    from seatrial.gateway.prices import load_prices  # noqa: PLC0415 - as above
    from seatrial.gateway.session import SessionOptions  # noqa: PLC0415 - as above
    from seatrial.gateway.upstreams.open import open_upstream  # noqa: PLC0415 - as above

    limits = SessionOptions(
        sampling=options.sampling,
        max_turns=options.max_turns,
        max_tokens=options.max_tokens,
        max_cost_usd=options.max_cost_usd,
        translation=options.translate,
    )
    prices = load_prices(Path(options.prices) if options.prices else None)
    async with open_upstream(options.upstream, ca_file=ca_file) as upstream:
        yield ModelAccess(upstream, limits, prices, options.upstream)


@asynccontextmanager
async def verifier_access(options: TrialOptions, prices: str | None = None) -> AsyncIterator["ModelAccess | None"]:
    """What verifiers need to reach the models that they ask, for the length of a block; None when there are none."""
    model = ModelOptions(
        upstream=options.verifier_upstream,
        max_tokens=options.verifier_max_tokens,
        max_cost_usd=options.verifier_max_cost_usd,
        prices=prices,
    )
    async with model_access(model, options.ca_file) as access:
        if access is None:
            yield None
            return
        names = {asked: name_at(other, access.named) or other for asked, other in options.verifier_models.items()}
        yield replace(access, options=replace(access.options, caller="verifier", models=names))


def with_upstream(options: ModelOptions, agents: Sequence[AgentOptions]) -> ModelOptions:
    """The options with the upstream that the names of models say, where agents need one and none is named.

    Raises JobError for an agent that needs a model and names none, and where the names do not say one provider.
    """
    needing = [agent for agent in agents if agent.name not in WITHOUT_MODEL and needs_model(make_agent(agent))]
    for agent in needing:
        if agent.model is None:
            raise JobError(f"the agent {agent.title!r} needs a model; name one with -m MODEL")
    if options.upstream is not None or not needing:
        return options
    providers = {provider_of(agent.model) for agent in needing if agent.model}
    chosen = providers.pop() if len(providers) == 1 else None
    if chosen is None:
        named = ", ".join(sorted({str(agent.model) for agent in needing}))
        raise JobError(
            f"the agent {needing[0].title!r} needs a model, and the name {named} does not say where it is; {_UPSTREAMS}"
        )
    return options.model_copy(update={"upstream": chosen})


def check_model(options: ModelOptions, agents: Sequence[AgentOptions]) -> None:
    """Raise UsageError for an upstream, a price list or a limit that cannot be used, before anything starts."""
    if options.upstream is None and options.prices is None:
        return
    from seatrial.gateway.prices import find_price, load_prices  # noqa: PLC0415 - slow, and only needed with a model

    prices = load_prices(Path(options.prices) if options.prices else None)
    if options.upstream is None:
        return
    from seatrial.gateway.upstreams.open import make_upstream  # noqa: PLC0415 - as above

    make_upstream(options.upstream)
    for model in filter(None, (agent.model for agent in agents)):
        if options.max_cost_usd is not None and find_price(model, prices.models) is None:
            raise JobError(
                f"the cost of {model} is not known, so it cannot be limited; give its price in a file with --prices, "
                "or limit --max-tokens instead"
            )


def check_verifier_model(options: TrialOptions) -> None:
    """Raise UsageError for what cannot be used of what is said about the models of verifiers."""
    if options.verifier_upstream is not None:
        from seatrial.gateway.upstreams.open import make_upstream  # noqa: PLC0415 - as above

        make_upstream(options.verifier_upstream)
        return
    given = {
        "--verifier-model": options.verifier_models,
        "--verifier-max-cost": options.verifier_max_cost_usd,
        "--verifier-max-tokens": options.verifier_max_tokens,
    }
    if idle := [name for name, value in given.items() if value]:
        raise JobError(f"{' and '.join(idle)}: no verifier can ask a model without --verifier-upstream")


def model_notices(spec: JobSpec) -> list[str]:
    """What the user should know who names models and no way to them."""
    models = sorted({agent.model for agent in spec.agents if agent.model and agent.name not in WITHOUT_MODEL})
    if not models or spec.model.upstream is not None:
        return []
    named = ", ".join(models)
    return [f"no upstream is named, so agents get the name {named} and no way to it; {_UPSTREAMS}"]
