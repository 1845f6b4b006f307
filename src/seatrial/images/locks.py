"""Work that is done once however many want it, in this process or any other: a lock on a file with a name."""

import asyncio
import fcntl
import hashlib
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary


class WorkLocks:
    """Locks by name. They end with the process that holds them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._here: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Be the only one to work on something. Whoever waited should look first whether it is done."""
        here = self._here.setdefault(name, asyncio.Lock())
        path = self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]  # names may be longer than a file's
        async with here:
            descriptor = await _lock(path)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)  # those who wait notice that it is not the same file any more
                os.close(descriptor)


async def _lock(path: Path) -> int:
    """A locked descriptor of the file that has this name now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await _wait_for(descriptor)
        if _is_named(descriptor, path):
            return descriptor
        os.close(descriptor)


async def _wait_for(descriptor: int) -> None:
    """Wait for a lock in a thread of its own, which nobody has to wait for when we are cancelled."""
    loop = asyncio.get_running_loop()
    locked: asyncio.Future[None] = loop.create_future()
    duplicate = os.dup(descriptor)

    def wait() -> None:
        fcntl.flock(duplicate, fcntl.LOCK_EX)
        os.close(duplicate)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, locked)

    threading.Thread(target=wait, daemon=True).start()
    try:
        await locked
    except BaseException:
        os.close(descriptor)
        raise


def settle(waiting: "asyncio.Future[None]") -> None:
    """Wake up whoever waits, if anybody still does."""
    if not waiting.done():
        waiting.set_result(None)


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
