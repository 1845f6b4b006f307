"""The ENTRYPOINT of an image, run as container engines run it: around the command that keeps a container up.

Engines wait for none of it: an entry point may do its work and hand over to its arguments, or be a service itself.
Here it has to have handed over, to have ended, or to have had its time, which is short for one that cannot hand over.
It runs beside the agent, as a setup.sh does: what it leaves running counts as left running by the agent.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path

from seatrial.concurrency import finish
from seatrial.errors import ContentError, EntrypointError, HealthcheckError
from seatrial.sandbox.api import ExecResult, ExecSpec, Network, Sandbox
from seatrial.sandbox.transfer import get_file
from seatrial.trial.place import Place

_LOG = "entrypoint.txt"
_LONGEST_SEC = 120.0
_SERVICE_SEC = 10.0
_CHECKED_SERVICE_SEC = 2.0
_ARGUMENTS = re.compile(rb"\$\{?[@*]|sys\.argv")
_MAX_SCRIPT_BYTES = 2**16
_MAX_LOG_BYTES = 2**20
_MOST_QUOTED = 500
_REACHED = b"seatrial: the ENTRYPOINT handed over"
# Where the command takes the place of the entry point's own process, nothing depends on that process, so it ends: what
# stays would look like something that the agent left running. Where the entry point waits for it, it stays, and reports
# on two descriptors: either may lead elsewhere, or through a filter that holds the line back. The first words are those
# of Harbor's command, since entry points look at them; some print all of them, so the line to look for is split.
_START = 'export SEATRIAL_ENTRYPOINT=$$; exec "$@" 2>&1 9>&1'
_COMMAND = """[ "$SEATRIAL_ENTRYPOINT" = $$ ] && exit
said="seatrial: the ENTRY""POINT handed over"; { echo "$said" >&9; } 2>/dev/null
echo "$said"; exec sleep 2147483647 9>&-"""


class Entrypoint:
    """The entry point of one sandbox. That of an image without any has nothing to run, and never fails."""

    def __init__(self, argv: tuple[str, ...], log: Path) -> None:
        self._argv = argv
        self._log = log
        self._heard = b""
        self._reached = asyncio.Event()
        self._running: asyncio.Future[ExecResult] | None = None
        self.changed: frozenset[str] = frozenset()
        """What it changed of the files of the image until it had handed over."""

    @asynccontextmanager
    async def run(
        self, sandbox: Sandbox, cwd: str, network: Network, *, has_healthcheck: bool
    ) -> AsyncIterator["Entrypoint"]:
        """Start it and wait as long as is needed; what of it runs in the foreground ends with the block."""
        longest_sec = _CHECKED_SERVICE_SEC if has_healthcheck else _SERVICE_SEC
        if await _may_hand_over(sandbox, self._argv):
            longest_sec = _LONGEST_SEC
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
            changes = await sandbox.changes()
            self.changed = frozenset((*changes.added, *changes.modified, *changes.removed))
            yield self
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


def run_entrypoint(
    sandbox: Sandbox, place: Place, network: Network, folder: Path, *, has_healthcheck: bool = False
) -> AbstractAsyncContextManager[Entrypoint]:
    """Run the ENTRYPOINT of a sandbox's image, if it has one, and keep what it prints in a folder.

    A healthcheck that comes next knows better than any waiting whether a service is up. Raises TrialError.
    """
    config = place.sandbox.image.config
    entrypoint = Entrypoint(config.entrypoint, folder / _LOG)
    if not config.entrypoint:
        return nullcontext(entrypoint)
    return entrypoint.run(sandbox, config.workdir or "/", network, has_healthcheck=has_healthcheck)


async def _may_hand_over(sandbox: Sandbox, argv: tuple[str, ...]) -> bool:
    """Whether an entry point, or a script that it names, says anything about its arguments."""
    texts = [word.encode(errors="replace") for word in argv]
    for path in [word for word in argv if word.startswith("/")]:
        with suppress(FileNotFoundError, ContentError):
            texts.append(await get_file(sandbox, path, limit=_MAX_SCRIPT_BYTES))
    return any(_ARGUMENTS.search(text) for text in texts)


async def _end(running: "asyncio.Future[ExecResult]") -> None:
    await asyncio.wait({running})
    if not running.cancelled():
        running.exception()  # a sandbox that has failed meanwhile fails what comes next, too
