"""The backend that chooses by itself: the first of several that works on this machine."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.sandbox.api import Capabilities, Sandbox, SandboxBackend, SandboxSpec


class AutoBackend:
    """The first of some candidates, given by name, that works here."""

    def __init__(self, candidates: Mapping[str, Callable[[], SandboxBackend]]) -> None:
        self._candidates = candidates
        self._chosen: SandboxBackend | None = None

    async def __aenter__(self) -> Self:
        """Raises HostUnsupportedError that says of each backend what stands in its way."""
        reasons = []
        for name, make in self._candidates.items():
            backend = make()
            try:
                self._chosen = await backend.__aenter__()
            except HostUnsupportedError as error:
                reasons.append(f"  {name}: {error}")
            else:
                return self
        raise HostUnsupportedError(
            "\n".join(["no kind of sandbox works on this machine; make one of them work:", *reasons])
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.chosen.__aexit__(kind, error, trace)

    @property
    def chosen(self) -> SandboxBackend:
        """The backend that works. Raises UsageError before it has been found."""
        if self._chosen is None:
            raise UsageError("a backend is used inside its `async with` block")
        return self._chosen

    async def probe(self) -> Capabilities:
        """What the chosen backend can do, under its own name."""
        return await self.chosen.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox of the chosen backend."""
        return await self.chosen.create(spec)
