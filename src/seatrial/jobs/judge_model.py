"""A model as a judge: plain calls of an upstream of the gateway, with what they cost and a limit on that.

No server and no session are needed: a judge runs in this process. The answer's schema goes along where the upstream
takes it; one that refuses it is asked without, for what counts is how the answer is read.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from seatrial.errors import InvalidModelResponseError, JobError, UsageError
from seatrial.gateway.api import ModelRequest, Upstream, for_trial
from seatrial.gateway.budget import Budget, abandoned, estimate_of, most_of
from seatrial.gateway.prices import PriceTable, find_price, price
from seatrial.gateway.upstreams.open import open_upstream
from seatrial.judge.assess import Judge, JudgeReply
from seatrial.judge.questions import JudgeCall
from seatrial.model.assessment import JudgeRef
from seatrial.model.base import name_at, plain_name, provider_of, without_cache
from seatrial.trial.judge_calls import REFUSING_A_SCHEMA, reply_of, request_for, usage_in

_MOST_ANSWER_BYTES = 16 * 2**20
_VERSION = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{6,8}|latest)$")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


class BudgetSpentError(JobError):
    """What judges may cost is spent; the trial that comes next is not assessed."""


class JudgeModel:
    """One model at one open upstream, for all trials."""

    def __init__(self, ref: JudgeRef, upstream: Upstream, prices: PriceTable, budget: Budget) -> None:
        self.ref = ref
        self._upstream = upstream
        self._price = find_price(ref.model, prices.models)
        self._prices = prices
        self._budget = budget
        self._takes_schema = True
        self._number = 0

    def for_trial(self) -> Judge:
        """The judge of one trial: a script starts at its beginning, and a provider can tell trials apart."""
        self._number += 1
        upstream, number = for_trial(self._upstream), self._number

        async def ask(call: JudgeCall) -> JudgeReply:
            return await self._ask(call, upstream, number)

        return Judge(self.ref, ask)

    async def _ask(self, call: JudgeCall, upstream: Upstream, trial: int) -> JudgeReply:
        if self._takes_schema:
            status, body, request = await self._exchange(call, upstream, trial, with_schema=True)
            if status not in REFUSING_A_SCHEMA:
                return reply_of(request, status, body, self.ref.model, self._prices)
            plain = await self._exchange(call, upstream, trial, with_schema=False)
            self._takes_schema = plain[0] >= 300
        else:
            plain = await self._exchange(call, upstream, trial, with_schema=False)
        status, body, request = plain
        return reply_of(request, status, body, self.ref.model, self._prices)

    async def _exchange(
        self, call: JudgeCall, upstream: Upstream, trial: int, *, with_schema: bool
    ) -> tuple[int, bytes, ModelRequest]:
        request = request_for(call, self.ref.model, upstream.dialects, trial, with_schema=with_schema)
        if (reason := self._budget.refusal()) is not None:
            raise BudgetSpentError(reason)
        most = most_of(request, self._price)
        await self._budget.hold(most)
        try:
            if (reason := self._budget.refusal()) is not None:
                raise BudgetSpentError(reason)
            async with upstream.ask(request) as reply:
                body = bytearray()
                async for chunk in reply.chunks:
                    body += chunk
                    if len(body) > _MOST_ANSWER_BYTES:
                        raise InvalidModelResponseError(f"the answer is larger than {_MOST_ANSWER_BYTES:,} bytes")
            usage = usage_in(request, bytes(body))
            if usage is None and reply.status < 300:
                self._budget.spend(estimate_of(request, len(body), self._price))
            elif usage is not None:
                cost = price(self.ref.model, usage, self._prices) or 0.0
                self._budget.spend(most._replace(tokens=usage.input_tokens + usage.output_tokens, usd=cost))
            return reply.status, bytes(body), request
        except asyncio.CancelledError:
            self._budget.spend(abandoned(request, most, self._price))  # it may be paid for all the same
            raise
        finally:
            self._budget.let_go(most)


@asynccontextmanager
async def open_judges(
    refs: Sequence[JudgeRef], prices: PriceTable, max_cost_usd: float | None = None, ca_file: str | None = None
) -> AsyncIterator[list[JudgeModel]]:
    """The judges for the length of a block; those at one upstream share it, and all of them share the limit of cost.

    Raises UsageError for an upstream that cannot be used, and for a limit where the price of a model is not known.
    """
    unknown = [ref.model for ref in refs if find_price(ref.model, prices.models) is None]
    if max_cost_usd is not None and unknown:
        raise UsageError(f"the cost of {unknown[0]} is not known, so --max-cost cannot limit it")
    budget = Budget(None, max_cost_usd)
    async with AsyncExitStack() as stack:
        opened: dict[str, Upstream] = {}
        for name in dict.fromkeys(ref.upstream or "" for ref in refs):
            opened[name] = await stack.enter_async_context(open_upstream(name, ca_file=ca_file))
        yield [JudgeModel(as_stored(ref), opened[ref.upstream or ""], prices, budget) for ref in refs]


def judge_refs(models: Sequence[str], upstream: str | None) -> list[JudgeRef]:
    """The judges that are named, each with its upstream. Raises UsageError for one whose upstream nothing says."""
    refs = []
    for model in dict.fromkeys(models):
        found = upstream or provider_of(model)
        if found is None:
            raise UsageError(
                f"the name {model} does not say where the model is; add --upstream openai, --upstream anthropic, "
                "--upstream google or --upstream https://HOST/v1"
            )
        refs.append(JudgeRef(model=name_at(model, found) or model, upstream=found))
    return refs


def as_stored(ref: JudgeRef) -> JudgeRef:
    """A judge as assessments have it: without a cache, which changes no answer, and without a password in a URL."""
    upstream = without_cache(ref.upstream) or ""
    return JudgeRef(model=ref.model, upstream=_CREDENTIALS.sub("", upstream) or None)


def is_same_model(one: str, other: str) -> bool:
    """Whether two names mean one model, whichever version of it, and whoever passes it on."""
    names = (_VERSION.sub("", plain_name(name).rpartition("/")[2].lower()) for name in (one, other))
    return len({*names}) == 1


def graded_by_themselves(refs: Sequence[JudgeRef], models: Mapping[str, str]) -> list[tuple[str, str]]:
    """Judges that are the model of an agent, with that agent; `models` are those of agents."""
    return [(ref.model, agent) for ref in refs for agent, model in models.items() if is_same_model(ref.model, model)]
