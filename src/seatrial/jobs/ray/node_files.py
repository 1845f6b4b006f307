"""The files of the coordinator that a node has: kept by their digest, once, for all runs; or seen on a shared disk.

What arrives is checked against its digest aside and then renamed into place, so that runs can share one folder, and
one that is killed leaves nothing half done.
"""

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from seatrial.agents.files import have_changed
from seatrial.errors import OversizeError, SandboxError
from seatrial.jobs.ray.archives import unpack_archive
from seatrial.jobs.ray.wire import FileNeed, digest_of
from seatrial.model.job import AgentFiles
from seatrial.sandbox.scratch import Scratch
from seatrial.tasks.digest import digest_folder

FORGOTTEN_SEC = 14 * 24 * 3600.0
"""What no run has needed for so long is removed."""


class NodeFiles:
    """The files below a `root` of this node. `close` it at the end."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        self._aside = Scratch(root)
        self.places: dict[str, Path] = {}
        """Where everything lies that was found or has arrived, by digest."""

    def find(self, need: FileNeed) -> Path | None:
        """Where what is needed lies on this node: in our folder, or at the same path as on the coordinator."""
        if found := self.places.get(need.digest):
            return found
        kept = self._place(need)
        if kept.exists():
            with suppress(OSError):  # somebody else's clock or disk: it is there, which is what counts
                os.utime(self._root / need.digest)
            found = kept
        elif is_intact(need, Path(need.path)):
            found = Path(need.path)
        if found:
            self.places[need.digest] = found
        return found

    def receive(self, digest: str, offset: int, piece: bytes) -> None:
        """Keep a piece of an archive that is on its way. Raises OSError; the same piece may come twice."""
        with self.archive(digest).open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(piece)

    def archive(self, digest: str) -> Path:
        """Where the pieces of an archive are put together."""
        return self._aside.path / f"{digest}.tar.zst"

    def complete(self, need: FileNeed) -> Path:
        """Unpack an archive that has arrived. Raises SandboxError for one that is not what was needed, and OSError."""
        archive, aside = self.archive(need.digest), self._aside.path / f"{need.digest}.new"
        shutil.rmtree(aside, ignore_errors=True)
        content = aside / _CONTENT
        content.mkdir(parents=True)
        try:
            with archive.open("rb") as file:
                unpack_archive(file, content)
            if not is_intact(need, content / (need.name or "")):
                raise SandboxError(f"{need.path}: other files arrived than were sent, or they changed meanwhile")
            with suppress(FileExistsError, OSError):
                aside.rename(self._root / need.digest)  # unless another run was faster
        finally:
            archive.unlink(missing_ok=True)
            shutil.rmtree(aside, ignore_errors=True)
        found = self.places[need.digest] = self._place(need)
        if not found.exists():
            raise SandboxError(f"{found}: cannot be written")
        return found

    def sweep(self, now: float | None = None) -> list[str]:
        """Remove what nobody has needed for long; returns the digests."""
        oldest = (time.time() if now is None else now) - FORGOTTEN_SEC
        gone = []
        for path in self._root.iterdir():
            with suppress(FileNotFoundError):  # another run sweeps too
                if len(path.name) == _DIGEST_LETTERS and path.lstat().st_mtime < oldest:
                    shutil.rmtree(path, ignore_errors=True)
                    gone.append(path.name)
        return gone

    def close(self) -> None:
        """Drop what was on its way."""
        with suppress(OSError):
            self._aside.remove()

    def _place(self, need: FileNeed) -> Path:
        return self._root / need.digest / _CONTENT / (need.name or "")


_CONTENT = "content"
_DIGEST_LETTERS = 64


def is_intact(need: FileNeed, path: Path) -> bool:
    """Whether what lies at a path is what is needed."""
    try:
        if need.kind == "task":
            return digest_folder(path) == need.digest
        if need.kind == "agent":
            return not have_changed(AgentFiles(source=str(path), digest=need.digest))
        return digest_of(path.read_bytes()) == need.digest
    except (OSError, OversizeError):
        return False
