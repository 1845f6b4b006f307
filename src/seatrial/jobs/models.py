"""The model of a job: its upstream is opened once, and every trial gets a session of its own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.agents.api import make_agent, needs_model
from seatrial.errors import JobError
from seatrial.gateway.pricing import find_price, load_prices
from seatrial.model.job import WITHOUT_MODEL, AgentOptions, JobSpec, ModelOptions
from seatrial.model.model_names import provider_of

if TYPE_CHECKING:
    from seatrial.gateway.access import ModelAccess


_UPSTREAMS = "add --upstream openai, --upstream anthropic, --upstream google or --upstream https://HOST/v1"


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
    prices = load_prices(Path(options.prices) if options.prices else None)
    if options.upstream is None:
        return
    from seatrial.gateway.upstreams.open import make_upstream  # noqa: PLC0415 - slow, and only needed with a model

    make_upstream(options.upstream)
    for model in filter(None, (agent.model for agent in agents)):
        if options.max_cost_usd is not None and find_price(model, prices.models) is None:
            raise JobError(
                f"the cost of {model} is not known, so it cannot be limited; give its price in a file with --prices, "
                "or limit --max-tokens instead"
            )


def model_notices(spec: JobSpec) -> list[str]:
    """What the user should know who names models and no way to them."""
    models = sorted({agent.model for agent in spec.agents if agent.model and agent.name not in WITHOUT_MODEL})
    if not models or spec.model.upstream is not None:
        return []
    named = ", ".join(models)
    return [f"no upstream is named, so agents get the name {named} and no way to it; {_UPSTREAMS}"]


@asynccontextmanager
async def model_access(options: ModelOptions, ca_file: str | None = None) -> AsyncIterator["ModelAccess | None"]:
    """What the trials of a job need to reach their model, for the length of a block; None when there is none."""
    if options.upstream is None:
        yield None
        return
    from seatrial.gateway.access import ModelAccess  # noqa: PLC0415 - as above
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
