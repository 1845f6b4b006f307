"""The ENTRYPOINT of an image, run as container engines run it: around the command that keeps a container up.

Engines wait for none of it: an entry point may do its work and hand over to its arguments, or be a service itself.
Here it has to have handed over, to have ended, or to have had some seconds. It runs beside the agent, as a setup.sh
does: what it leaves running can be taken over by the agent, and counts as left running.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from seatrial.concurrency import finish
from seatrial.errors import EntrypointError, HealthcheckError
from seatrial.sandbox.api import ExecResult, ExecSpec, Network, Sandbox
from seatrial.trial.place import Place

_LOG = "entrypoint.txt"
_LONGEST_SEC = 10.0
_BEFORE_HEALTHCHECK_SEC = 2.0
_MAX_LOG_BYTES = 2**20
_MOST_QUOTED = 500
_REACHED = b"seatrial: the ENTRYPOINT handed over to the command of the container"
# Where the command takes the place of the entry point's own process, nothing depends on that process, so it ends: what
# stays would look like something that the agent left running. Where the entry point waits for it, it stays. The first
# words are those of Harbor's command, since entry points look at them.
_START = 'export SEATRIAL_ENTRYPOINT=$$; exec "$@" 2>&1'
_COMMAND = f'[ "$SEATRIAL_ENTRYPOINT" = $$ ] || {{ echo "{_REACHED.decode()}"; exec sleep 2147483647; }}'


class Entrypoint:
    """The entry point of one sandbox. That of an image without any has nothing to run, and never fails."""

    def __init__(self, argv: tuple[str, ...], log: Path) -> None:
        self._argv = argv
        self._log = log
        self._heard = b""
        self._reached = asyncio.Event()
        self._running: asyncio.Future[ExecResult] | None = None

    @asynccontextmanager
    async def run(self, sandbox: Sandbox, cwd: str, network: Network, longest_sec: float) -> AsyncIterator[None]:
        """Start it and wait as long as is needed; what of it runs in the foreground ends with the block."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = ExecSpec(
            ("/bin/sh", "-c", _START, "sh", *self._argv, "sh", "-c", _COMMAND),
            cwd=cwd,
            network=network,
            stdout_path=self._log,
            max_output=_MAX_LOG_BYTES,
            on_output=self._hear,
        )
        running = self._running = asyncio.ensure_future(sandbox.exec(command))
        reached = asyncio.ensure_future(self._reached.wait())
        try:
            await asyncio.wait({running, reached}, timeout=longest_sec, return_when=asyncio.FIRST_COMPLETED)
            self.check()
            yield
        finally:
            running.cancel()
            reached.cancel()
            await finish(_end(running))

    def _hear(self, data: bytes) -> None:
        self._heard = (self._heard + data)[-len(data) - len(_REACHED) :]
        if _REACHED in self._heard:
            self._reached.set()

    @property
    def _exit_code(self) -> int:
        """0 while it has not failed; raises what its sandbox did if that has."""
        if self._running is None or not self._running.done() or self._reached.is_set():
            return 0
        return self._running.result().exit_code or 0

    def check(self) -> None:
        """Raise EntrypointError if it has failed."""
        if code := self._exit_code:
            lines = self._log.read_text(errors="replace").strip().splitlines()
            last = lines[-1][:_MOST_QUOTED] if lines else "it printed nothing"
            argv = " ".join(self._argv)[:_MOST_QUOTED]
            raise EntrypointError(f"the ENTRYPOINT of the image ({argv}) failed with exit code {code}: {last}")

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Check it again at the end of the block, or when a healthcheck fails. Later on, an agent may have ended it."""
        try:
            yield
        except HealthcheckError:
            if self._exit_code > 0:  # a probe that hangs is killed with everything beside it
                self.check()
            raise
        self.check()
        self._running = None


@asynccontextmanager
async def run_entrypoint(
    sandbox: Sandbox, place: Place, network: Network, folder: Path, *, has_healthcheck: bool = False
) -> AsyncIterator[Entrypoint]:
    """Run the ENTRYPOINT of a sandbox's image, if it has one, and keep what it prints in a folder.

    A healthcheck that comes next knows better than any waiting whether a service is up. Raises EntrypointError.
    """
    config = place.sandbox.image.config
    entrypoint = Entrypoint(config.entrypoint, folder / _LOG)
    if not config.entrypoint:
        yield entrypoint
        return
    longest_sec = _BEFORE_HEALTHCHECK_SEC if has_healthcheck else _LONGEST_SEC
    async with entrypoint.run(sandbox, config.workdir or "/", network, longest_sec):
        yield entrypoint


async def _end(running: "asyncio.Future[ExecResult]") -> None:
    await asyncio.wait({running})
    if not running.cancelled():
        running.exception()  # a sandbox that has failed meanwhile fails what comes next, too
