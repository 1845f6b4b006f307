"""How long an agent takes to its first model call: from a baked layer, and installed in every trial as Harbor does it.

Both in turns, in one run, each in a sandbox of its own; `on this machine` is the same program without a sandbox.
Needs the registries of npm and the package index, and a node and npm of this machine for the installing side:

    python -m benchmarks.agents [AGENT...]

Your own settings of npm and pip are used where SEATRIAL_HOST_SETTINGS=1 allows it.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from seatrial.images.baking.layout import programs_of, settings_here, tree_of, where_settings_are
from seatrial.images.choice import Setup
from seatrial.images.sources import StoreSource
from seatrial.images.store import open_store
from seatrial.model.events import unobserved
from seatrial.model.job import LayerRecipe
from seatrial.sandbox.api import (
    DEFAULT_PATH,
    HOST_IMAGE,
    NO_NETWORK,
    ExecResult,
    ExecSpec,
    Image,
    Network,
    SandboxBackend,
    SandboxSpec,
    open_sandbox,
)
from seatrial.sandbox.embedded.backend import EmbeddedBackend

ROUNDS = 3
PROMISED_RATIO = 10.0
PROMISED_MORE_SEC = 2.0
_PORT = 8123
_FIRST_CALL = (b"/messages", b"/responses", b"/chat/completions")
_ADDRESS = f"http://127.0.0.1:{_PORT}"
_TIMEOUT_SEC = 300.0


@dataclass(frozen=True)
class Case:
    """An agent: how its tree is baked, how it is installed in a trial instead, and how it is started."""

    recipe: LayerRecipe
    install: str
    installed: str
    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        return next(iter(self.recipe.programs))


_NPM = "npm install --no-audit --no-fund --prefix /opt/installed"
CASES = {
    "claude-code": Case(
        LayerRecipe(
            name="claude-code",
            version="2.1.325",
            npm=(
                "@anthropic-ai/claude-code-linux-{arch}@2.1.325",
                "@anthropic-ai/claude-code-linux-{arch}-musl@2.1.325",
            ),
            programs={"claude": "node_modules/@anthropic-ai/claude-code-linux-{arch}/claude"},
            musl_programs={"claude": "node_modules/@anthropic-ai/claude-code-linux-{arch}-musl/claude"},
        ),
        f"{_NPM} @anthropic-ai/claude-code@2.1.325",
        "/opt/installed/node_modules/.bin/claude",
        ("--print", "--permission-mode=bypassPermissions", "hello"),
        {
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ANTHROPIC_BASE_URL": _ADDRESS,
            "ANTHROPIC_API_KEY": "k",
        },
    ),
    "qwen-code": Case(
        LayerRecipe(
            name="qwen-code", version="0.24.4", npm=("@qwen-code/qwen-code@0.24.4",), programs={"qwen": "qwen"}
        ),
        # It takes a newer node than most images have, which an installer has to bring, too.
        f"{_NPM} node@22 @qwen-code/qwen-code@0.24.4",
        "/opt/installed/node_modules/.bin/qwen",
        ("--auth-type", "openai", "--yolo", "-p", "hello"),
        {"OPENAI_BASE_URL": f"{_ADDRESS}/v1", "OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"},
    ),
    "mini-swe-agent": Case(
        LayerRecipe(
            name="mini-swe-agent",
            version="2.4.6",
            pip=("mini-swe-agent==2.4.6", "mcp"),
            programs={"mini": "env/bin/mini"},
        ),
        "python3 -m venv /opt/installed && /opt/installed/bin/pip install -q --no-cache-dir mini-swe-agent==2.4.6 mcp",
        "/opt/installed/bin/mini",
        ("-y", "-m", "openai/m", "-t", "hello", "--exit-immediately", "-o", "/tmp/mini.json", "-l", "0"),
        {
            "OPENAI_BASE_URL": f"{_ADDRESS}/v1",
            "OPENAI_API_BASE": f"{_ADDRESS}/v1",
            "OPENAI_API_KEY": "k",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
        },
    ),
}
USUAL = ("claude-code", "qwen-code")


class Answering:
    """Something that listens for the first model call, and knows nothing to say."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if any(path in line for path in _FIRST_CALL):
            self.called.set()
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


async def first_call(
    backend: SandboxBackend, image: Image, argv: tuple[str, ...], case: Case, install: str = ""
) -> float:
    """Seconds from no sandbox at all to the first model call in it."""
    settings, home = settings_here(), "/opt/home"
    started = time.perf_counter()
    async with open_sandbox(backend, SandboxSpec(image=image, workdir="/app")) as sandbox:
        if install:
            lines = [f"mkdir -p {home}/.config/pip"]
            lines += [f"cat > {home}/{name} <<'END'\n{text}\nEND" for name, text in settings.files.items()]
            env = {**settings.variables, **where_settings_are(home, settings), "PATH": DEFAULT_PATH}
            line = "\n".join([*lines, install])
            done = await sandbox.exec(ExecSpec(("/bin/sh", "-c", line), env=env, network=Network("public")))
            assert done.exit_code == 0, done.stderr.decode()
        server = await asyncio.start_server((answering := Answering()).hear, sock=await sandbox.listen(_PORT))
        env = {"HOME": "/tmp", "PATH": f"/opt/installed/node_modules/.bin:{DEFAULT_PATH}", **case.env}
        work = asyncio.ensure_future(sandbox.exec(ExecSpec((*argv, *case.words), env=env, network=NO_NETWORK)))
        await _called(answering, work)
        taken = time.perf_counter() - started
        work.cancel()
        await asyncio.wait([work])
        server.close()
    return taken


async def _called(answering: Answering, work: "asyncio.Task[ExecResult]") -> None:
    waiting = asyncio.ensure_future(answering.called.wait())
    await asyncio.wait((waiting, work), timeout=_TIMEOUT_SEC, return_when=asyncio.FIRST_COMPLETED)
    if not answering.called.is_set():
        waiting.cancel()
        raise SystemExit(f"the agent made no model call: {work.result() if work.done() else 'out of time'}")


async def on_this_machine(program: Path, case: Case) -> float:
    """Seconds to the first model call of a program that is started here."""
    with tempfile.TemporaryDirectory() as home:
        server = await asyncio.start_server((answering := Answering()).hear, "127.0.0.1", _PORT)
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(str(program), *case.words),
            env={"HOME": home, "PATH": os.environ["PATH"], **case.env},
            cwd=home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.wait_for(answering.called.wait(), _TIMEOUT_SEC)
        taken = time.perf_counter() - started
        process.kill()
        await process.wait()
        server.close()
    return taken


@asynccontextmanager
async def open_source(backend: SandboxBackend) -> AsyncIterator[StoreSource]:
    async with open_store() as store:
        yield StoreSource(store, backend)


async def measure(name: str, case: Case, backend: SandboxBackend, source: StoreSource) -> bool:
    started = time.perf_counter()
    image = await source.extend(HOST_IMAGE, Setup(layer=case.recipe), lambda line: print(f"  {line}"))
    print(f"{name}: its layer is there after {time.perf_counter() - started:.1f} s")
    baked, installed, here = [], [], []
    native = (
        Path(f"{image.layers[-1]}{tree_of(case.recipe)}") / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    )
    for _ in range(ROUNDS):
        again = await source.extend(HOST_IMAGE, Setup(layer=case.recipe), unobserved)
        baked.append(await first_call(backend, again, (f"{programs_of(case.recipe)}/{case.program}",), case))
        installed.append(await first_call(backend, HOST_IMAGE, (case.installed,), case, case.install))
        if native.exists():
            here.append(await on_this_machine(native, case))
    ratio = median(installed) / median(baked)
    print(f"  baked {median(baked):.2f} s, installed {median(installed):.2f} s to its first model call (medians)")
    print(f"  {ratio:.1f} times faster (promised: {PROMISED_RATIO:g})")
    if not here:
        return ratio >= PROMISED_RATIO
    more = median(baked) - median(here)
    print(f"  on this machine {median(here):.2f} s: {more:+.2f} s in a sandbox (at most {PROMISED_MORE_SEC:g})")
    return ratio >= PROMISED_RATIO and more <= PROMISED_MORE_SEC


async def main(names: list[str]) -> bool:
    async with EmbeddedBackend() as backend, open_source(backend) as source:
        kept = [await measure(name, CASES[name], backend, source) for name in names or USUAL]
    return all(kept)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main(sys.argv[1:])) else 1)
