"""Who is using the store: each process that has it open says so in a directory that it keeps locked.

What a living session has claimed, nobody prunes; what is in the directory of a dead one, the next process removes.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seatrial.sandbox.runs import RunDirectory

_CLAIMS = "claims"


class RegistrySession:
    """One process's use of a store."""

    def __init__(self, root: Path) -> None:
        self._gate = root / "lock"
        self._folder = root / "sessions"
        self._folder.mkdir(exist_ok=True)
        self._run = RunDirectory(self._folder)
        self._claimed: set[str] = set()

    def new_folder(self) -> Path:
        """A new directory that goes with this session, unless it is moved elsewhere before."""
        folder = self._run.path / secrets.token_hex(8)
        folder.mkdir(mode=0o755)
        return folder

    @property
    def path(self) -> Path:
        """The directory of this session."""
        return self._run.path

    @contextmanager
    def claiming(self, *names: str) -> Iterator[None]:
        """Claim some things until the end of the session; nobody prunes while the block decides whether they exist."""
        with self._gate_lock(fcntl.LOCK_SH):
            if new := set(names) - self._claimed:
                with (self._run.path / _CLAIMS).open("a") as file:
                    file.write("".join(f"{name}\n" for name in sorted(new)))
                self._claimed |= new
            yield

    @contextmanager
    def pruning(self) -> Iterator[frozenset[str]]:
        """What living sessions have claimed, this one included; nobody claims anything meanwhile."""
        with self._gate_lock(fcntl.LOCK_EX):
            claimed: set[str] = set()
            dead = set(self.abandoned())
            for path in self._folder.glob(f"*/{_CLAIMS}"):
                if path.parent not in dead:
                    claimed.update(path.read_text().split())
            yield frozenset(claimed)

    def abandoned(self) -> Iterator[Path]:
        """The directories that processes left which are no more; each is locked while the caller has it."""
        yield from self._run.abandoned()

    def end(self) -> bool:
        """Give up the claims and be gone, if nothing is left in the directory; else it is the caller's to remove."""
        with suppress(OSError):
            (self._run.path / _CLAIMS).unlink(missing_ok=True)
            self._run.path.rmdir()
            self.release()
            return True
        return False

    def release(self) -> None:
        """Give up the claims; the directory is the caller's to remove."""
        self._run.release()

    @contextmanager
    def _gate_lock(self, kind: int) -> Iterator[None]:
        gate = os.open(self._gate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(gate, kind)
            yield
        finally:
            os.close(gate)
