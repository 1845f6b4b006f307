"""Having another program build: Docker, Podman or buildah, whose result then comes into our store."""

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from seatrial.concurrency import finish
from seatrial.errors import BuildError, HostUnsupportedError
from seatrial.images.archives import load_images
from seatrial.images.building.events import StepLog
from seatrial.images.store import Store
from seatrial.images.stored import StoredImage

Program = Literal["docker", "podman", "buildah"]


async def hand_over(program: Program, options: Sequence[str], context: Path, store: Store, log: StepLog) -> StoredImage:
    """Have a program build with some options, and take what it built.

    Raises HostUnsupportedError when it is not there, BuildError when it fails.
    """
    path = shutil.which(program)
    if path is None:
        raise HostUnsupportedError(
            f"--builder {program}: there is no {program} on the PATH; install it, or leave --builder out"
        )
    folder = store.session.new_folder()
    try:
        await _run([path, "build", "--iidfile", str(folder / "id"), *options, str(context)], log)
        image = (folder / "id").read_text().strip()
        archive = folder / "image.tar"
        if program == "buildah":
            await _run([path, "push", image, f"docker-archive:{archive}"], log)
        else:
            await _run([path, "save", "-o", str(archive), image], log)
        (stored,) = await load_images(store, archive)
        return stored
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(command: Sequence[str], log: StepLog) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101 - a pipe, as asked for
    try:
        while data := await process.stdout.read(65536):
            log.write(data)
        status = await process.wait()
    except BaseException:
        await finish(_end(process))
        raise
    if status != 0:
        shown = "".join(f"\n    {line}" for line in log.tail.splitlines())
        raise BuildError(f"`{' '.join(command[:2])}` ended with exit code {status}; the end of its output:{shown}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program with all it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
