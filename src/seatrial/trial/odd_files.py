"""Files of an end state that are no plain files: folders, links, pipes, and ones too large to be sent."""

import posixpath
from dataclasses import dataclass
from typing import Literal

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, Sandbox

_MAKING_SEC = 60.0
# `dd` is everywhere; it makes a file with a hole, which takes no time and no room.
_MAKERS = {
    "folder": 'mkdir -- "$1"',
    "link": 'ln -s -- "$2" "$1"',
    "pipe": 'mkfifo -- "$1"',
    "zeros": 'dd if=/dev/null of="$1" bs=1 count=0 seek="$2" 2>/dev/null',
}


@dataclass(frozen=True, slots=True)
class OddFile:
    """A folder, a link to `argument`, a named pipe, or a file of `argument` bytes that are all zero."""

    kind: Literal["folder", "link", "pipe", "zeros"]
    argument: str = ""


async def make_odd_file(sandbox: Sandbox, path: str, file: OddFile) -> None:
    """Put it in the place of whatever is there. Raises SandboxError where the sandbox cannot make it."""
    script = f'rm -rf -- "$1" && mkdir -p -- "$0" && {_MAKERS[file.kind]}'
    where = posixpath.normpath(path)
    command = ("/bin/sh", "-c", script, posixpath.dirname(where) or "/", where, file.argument)
    done = await sandbox.exec(ExecSpec(command, cwd="/", user=0, timeout_sec=_MAKING_SEC))
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise SandboxError(f"{path} cannot be made a {file.kind} in the end state: {said}")
