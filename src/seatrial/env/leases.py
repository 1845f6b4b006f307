"""Leases: the client that one rollout asks. Of a Policy it is the one of the moment, open as long as it is asked."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from seatrial.env.client import Client, open_client
from seatrial.env.policy import Policy


@dataclass(frozen=True, slots=True)
class ClientLease:
    """Whom a rollout asks, by which name, and which version of a policy that is; None where there is no policy."""

    client: Client
    model: str
    version: int | None = None


@dataclass(eq=False, slots=True)
class _Target:
    given: object
    client: Client
    stack: AsyncExitStack
    users: int = 0


@dataclass(eq=False, slots=True)
class OpenPolicy:
    """A policy in use. Each of its clients is opened once, and closed when it was swapped and no rollout has it."""

    policy: Policy
    _targets: dict[int, _Target] = field(default_factory=dict)

    @asynccontextmanager
    async def lease(self, model: str) -> AsyncIterator[ClientLease]:
        """The client of the moment for one rollout. Raises UsageError for one that is none."""
        policy = self.policy
        given, version, named = policy.client, policy.version, policy.model or model
        target = self._targets.get(id(given)) or await self._open(given)
        target.users += 1
        try:
            yield ClientLease(target.client, named, version)
        finally:
            target.users -= 1
            await self._close_unused()

    async def _open(self, given: object) -> _Target:
        stack = AsyncExitStack()
        client = await stack.enter_async_context(open_client(given))
        if (other := self._targets.get(id(given))) is not None:  # another rollout was quicker
            await stack.aclose()
            return other
        target = self._targets[id(given)] = _Target(given, client, stack)
        return target

    async def _close_unused(self) -> None:
        unused = [each for each in self._targets.values() if not each.users and each.given is not self.policy.client]
        for target in unused:
            del self._targets[id(target.given)]
            await target.stack.aclose()

    async def close(self) -> None:
        """Close all clients."""
        while self._targets:
            _, target = self._targets.popitem()
            await target.stack.aclose()


@asynccontextmanager
async def open_model(given: object) -> AsyncIterator[Client | OpenPolicy]:
    """A client or a policy for the length of a block. Raises UsageError for what is neither."""
    if not isinstance(given, Policy):
        async with open_client(given) as client:
            yield client
        return
    policy = OpenPolicy(given)
    try:
        yield policy
    finally:
        await policy.close()
