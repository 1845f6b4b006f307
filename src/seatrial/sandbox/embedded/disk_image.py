"""How much a sandbox may store: a file system of its own with a size, in a loop-mounted image or in memory.

Runs in our own process. What the spawner's children do with an image is in `disk.py`: the spawner must not import
`subprocess`, which brings `threading`, whose bookkeeping then runs in every child.
"""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.embedded.disk import LOOP_CONTROL

MIB = 2**20
MKFS_TIMEOUT_SEC = 120

_BYTES_PER_INODE = 8192  # twice as many files as usual: package managers make small ones
_INODE_SIZE = 256


def choose(storage_mb: int, *, root: bool) -> Literal["loop", "tmpfs"]:
    """How to enforce a disk limit: `loop` wherever it can be had, for what is in a `tmpfs` counts as memory too.

    Raises HostUnsupportedError when a tmpfs is all there is and the machine has less memory than that.
    """
    if root and _mkfs() and Path(LOOP_CONTROL).exists():
        return "loop"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if storage_mb * MIB > memory:
        raise HostUnsupportedError(
            f"storage_mb = {storage_mb} is more than this machine's memory; on the disk it can be enforced only for "
            "root, with loop devices and mkfs.ext4 (Debian: apt-get install e2fsprogs)"
        )
    return "tmpfs"


def make_image(path: Path, storage_mb: int) -> None:
    """Make a sparse ext4 image in which at least `storage_mb` MiB can be stored.

    Raises HostUnsupportedError without mkfs.ext4, SandboxError when the image exists or cannot be made.
    """
    mkfs = _mkfs()
    if not mkfs:
        raise HostUnsupportedError("the disk cannot be limited: no mkfs.ext4; Debian: apt-get install e2fsprogs")
    features = "^has_journal,^resize_inode"  # it is thrown away: nobody will repair or grow it
    options = ["-q", "-F", "-m", "0", "-b", "4096", "-i", str(_BYTES_PER_INODE), "-I", str(_INODE_SIZE)]
    command = [mkfs, *options, "-O", features, "-E", "lazy_itable_init=1,nodiscard", str(path)]
    with ExitStack() as undo:
        try:
            with path.open("xb") as image:
                undo.callback(path.unlink)
                image.truncate(_image_bytes(storage_mb))
            subprocess.run(command, capture_output=True, check=True, timeout=MKFS_TIMEOUT_SEC)  # noqa: S603 - our words
        except (OSError, OverflowError, subprocess.SubprocessError) as error:
            output = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise SandboxError(f"cannot make the disk image {path}: {output or error}") from error
        undo.pop_all()


def _mkfs() -> str | None:
    return shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _image_bytes(storage_mb: int) -> int:
    """The size asked for and what ext4 keeps for itself: inode tables, a reserve of up to 16 MiB, bitmaps."""
    asked = storage_mb * MIB
    reserve = min(asked // 48, 17 * MIB)
    bitmaps = asked // 8192 + MIB
    return (asked + reserve + bitmaps) * (_BYTES_PER_INODE + _INODE_SIZE + 16) // _BYTES_PER_INODE
