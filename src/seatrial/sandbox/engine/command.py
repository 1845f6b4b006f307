"""One command in a container: how it is started, how its end is heard of, and what becomes of its output.

An engine tells of an exec's end only when nobody holds its output any more, or late, and then cuts that output off. So
a shell in between runs the command with its output in pipes, and says in them, by a word that only it has been told,
that the command has ended and how. The exec lives on as long as anybody holds those pipes; it is read and dropped.
"""

import asyncio
import io
import os
import re
import secrets
import shlex
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec
from seatrial.sandbox.engine.client import STDERR, STDOUT, EngineClient, EngineError, Stream

DEPTH = 2
"""How many generations below an exec's own process are ours, before the command."""
AROUND = 5
"""How many processes these are at most: three shells, each in the next one, and two that copy output."""

# The word comes first on standard input, and then the variables, up to the word again: so nobody but the command has
# them, and nobody sees them among arguments. Descriptors 6 to 9 are ours alone.
_SCRIPT = """IFS= read -r word
variables=
while IFS= read -r line && [ "$line" != "$word" ]; do variables="$variables$line
"; done
exec 7>&1 8>&2
{ {
{ ( exec {input}2>&6 6>&- 7>&- 8>&- 9>&-; unset PWD OLDPWD SHLVL; eval "$variables"; exec "$@" ) 6>&2 2>/dev/null
code=$?; printf '%s %s\\n' "$word" "$code"; printf '%s 0\\n' "$word" >&2
} 2>&1 >&9 9>&- | cat >&8 7>&- 9>&-
} 9>&1 | cat >&7 8>&-
}"""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGNALLED = 128
_LAST_SIGNAL = 64
_CANNOT_RUN = 126
_GONE = (404, 409)
_GIVE_UP_SEC = 10.0


class Output:
    """One output of a command, kept up to a limit until the word comes; what follows is nobody's."""

    def __init__(self, path: Path | None, limit: int, word: bytes, hear: Callable[[bytes], None] | None = None) -> None:
        self._sink: BinaryIO = path.open("wb") if path else io.BytesIO()
        self._room = limit
        self._word = word
        self._hear = hear
        self._held = b""
        self.truncated = False
        self.code: int | None = None

    def feed(self, data: bytes) -> None:
        """Take what came. Where the word may have begun, it is held back until more is known."""
        if self.code is not None:
            return
        self._held += data
        before, found, after = self._held.partition(self._word)
        if found:
            self._keep(before)
            number, ended, _ = after.partition(b"\n")
            self._held = found + after
            if ended:
                self.code, self._held = int(number), b""
            return
        ends = range(min(len(self._held), len(self._word) - 1), 0, -1)
        safe = len(self._held) - next((end for end in ends if self._held.endswith(self._word[:end])), 0)
        self._keep(self._held[:safe])
        self._held = self._held[safe:]

    def _keep(self, data: bytes) -> None:
        if len(data) > self._room:
            self.truncated = True
        if self._hear and data[: self._room]:
            self._hear(data[: self._room])
        try:
            self._sink.write(data[: self._room])
        except OSError:  # a full disk: its reader learns that something is missing
            self.truncated, self._room = True, 0
        self._room -= min(len(data), self._room)

    def finish(self) -> bytes:
        """Let go of it; returns what was kept unless it went to a file."""
        if self.code is None:
            self._keep(self._held)
        content = self._sink.getvalue() if isinstance(self._sink, io.BytesIO) else b""
        with suppress(OSError):
            self._sink.close()
        self._sink, self._room, self._held = io.BytesIO(), 0, b""
        return content


class ContainerCommand:
    """A command that is started once; whoever made it closes it at the end of the container's life."""

    def __init__(self, client: EngineClient, container: str, spec: ExecSpec) -> None:
        self._client = client
        self._container = container
        self._spec = spec
        self._word = secrets.token_hex(16).encode()
        paths = (spec.stdout_path, spec.stderr_path)
        outputs = [Output(path, spec.max_output, self._word + b" ", spec.on_output) for path in paths]
        self.stdout, self.stderr = outputs
        self._ended = asyncio.Event()
        self._number = ""
        self._refusal: EngineError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._wanted = True

    @property
    def open(self) -> bool:
        """Whether somebody may still write, or will: it may only be about to start."""
        return self._wanted or any(not task.done() for task in self._tasks)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet; what it left behind may still write."""
        return not self._ended.is_set()

    async def wait_until_closed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def start(self, env: Mapping[str, str], cwd: str, user: str) -> None:
        """Start it, to the end of starting even if cancelled: what has been asked for cannot be taken back."""
        await finish(self._start(env, cwd, user))

    async def _start(self, env: Mapping[str, str], cwd: str, user: str) -> None:
        script = _SCRIPT.replace("{input}", "" if self._spec.stdin else "</dev/null ")
        # What no shell takes for a name has to be set by somebody else.
        odd = [f"{name}={value}" for name, value in env.items() if not _VARIABLE.fullmatch(name)]
        order = {
            "Cmd": ["/bin/sh", "-c", script, "sh", *(["env", *odd] if odd else []), *self._spec.argv],
            "User": user,
            "WorkingDir": cwd,
            **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
        }
        made = await self._client.ask("POST", f"/containers/{self._container}/exec", order)
        self._number = made["Id"]
        try:
            stream = await self._client.stream(f"/exec/{self._number}/start", {"Detach": False, "Tty": False})
        except EngineError as error:
            if error.status in _GONE:
                raise
            self._refusal = error
            self.stderr.feed(f"{error}\n".encode())
            self._ended.set()
            return
        # Tasks of their own, because they outlive whoever waits for the command; `close` waits for them.
        work = (self._write(stream, env), self._read(stream))
        self._tasks = [asyncio.create_task(each) for each in work]

    async def _write(self, stream: Stream, env: Mapping[str, str]) -> None:
        settings = (f"export {name}={shlex.quote(value)}\n" for name, value in env.items() if _VARIABLE.fullmatch(name))
        variables = os.fsencode("".join(settings))
        await stream.send(self._word + b"\n" + variables + self._word + b"\n" + self._spec.stdin)
        if self._spec.stdin:
            stream.end_input()

    async def _read(self, stream: Stream) -> None:
        try:
            async for kind, data in stream.outputs():
                if kind == STDOUT:
                    self.stdout.feed(data)
                elif kind == STDERR:
                    self.stderr.feed(data)
                if self.stdout.code is not None and self.stderr.code is not None:
                    self._ended.set()
        finally:
            self._ended.set()
            self._tasks[0].cancel()
            await finish(stream.close())

    async def wait(self) -> int:
        """How it ended: its exit code, or the negative number of a signal.

        One that could not begin ends as in a shell, with 126 or 127: the agent may have brought it about. Raises
        SandboxError when its container is gone.
        """
        await self._ended.wait()
        code = self.stdout.code
        if code is None:
            code = await self._ask_engine()
        return _SIGNALLED - code if _SIGNALLED < code <= _SIGNALLED + _LAST_SIGNAL else code

    async def _ask_engine(self) -> int:
        """How the shell in between ended: it was killed, or there is none, nor the user or the directory."""
        if self._refusal is not None:
            return _CANNOT_RUN
        try:
            found: dict[str, Any] = await self._client.ask("GET", f"/exec/{self._number}/json")
        except EngineError as error:
            raise SandboxError(f"the container went away while a command was running: {error}") from error
        code = found.get("ExitCode")
        return _SIGNALLED + signal.SIGKILL if code is None else int(code)

    def finish(self) -> tuple[bytes, bytes, bool]:
        """What it said on either output, unless that went to files, and whether some of it was dropped."""
        self._wanted = False
        stdout, stderr = self.stdout.finish(), self.stderr.finish()
        return stdout, stderr, self.stdout.truncated or self.stderr.truncated

    async def drain(self) -> None:
        """After everything was killed: wait until the engine has handed over what was still on its way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_UP_SEC):
                await self._ended.wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.wait_until_closed()


async def run_tool(client: EngineClient, container: str, *argv: str) -> bytes:
    """What a program that needs neither shell nor input says, at its end. Raises SandboxError."""
    order = {"Cmd": list(argv), "User": "0", "AttachStdout": True, "AttachStderr": True}
    made = await client.ask("POST", f"/containers/{container}/exec", order)
    stream = await client.stream(f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
    try:
        return b"".join([data async for kind, data in stream.outputs() if kind == STDOUT])
    finally:
        await finish(stream.close())
