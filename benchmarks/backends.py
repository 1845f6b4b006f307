"""Our own sandboxes against containers, through the very same Protocols, taking turns in one run on one machine.

Times depend on the machine and what else it does; the ratios are what we promise. Takes about three minutes, on a
Docker daemon that is started for it and removed again. With `--podman`, Podman takes part.
"""

import asyncio
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from io import BytesIO
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks.backends_build import compare_builds
from seatrial.gateway.access import ModelAccess
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.sandbox.api import ExecSpec, Image, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Engine
from seatrial.sandbox.transfer import get_file, put_file
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery, TrialSpec
from tests.docker_daemon import busybox_archive, engine_endpoint, why_no

AT_ONCE = (8, 32)
ROUNDS = 3
ENGINE_RUNS = {8: 16, 32: 32}
OUR_SHARE = 3  # ours are so much faster that more are needed for a measurable time
PROMISED_LIFECYCLES = 12
PROMISED_TRIALS = 6
CONTENT = b"x" * 1000

REPLY = {"text": "right", "usage": {"input_tokens": 8, "output_tokens": 2}}
TASK = {
    "task.toml": '[environment]\nnetwork_mode = "no-network"\n',
    "instruction.md": "Write the word `right` to `/app/answer.txt`.\n",
    "tests/test.sh": "#!/bin/sh\ngrep -cx right /app/answer.txt > /logs/verifier/reward.txt\n",
}
# Three calls of a model by way of the gateway, without any SDK.
AGENT = """
body='{"model": "m", "messages": [{"role": "user", "content": "what?"}]}'
for n in 1 2 3; do
  wget -q -O said --header "Authorization: Bearer $OPENAI_API_KEY" --header "Content-Type: application/json" \\
    --post-data "$body" "$OPENAI_BASE_URL/chat/completions" && grep -q right said && echo right > /app/answer.txt
done
"""

Work = Callable[[SandboxBackend], Awaitable[None]]


def make_layer(folder: Path) -> Path:
    """A root file system with nothing but busybox."""
    layer = folder / "busybox"
    with tarfile.open(fileobj=BytesIO(busybox_archive())) as tar:
        tar.extractall(layer)  # noqa: S202 - it is our own
    return layer


def lifecycle(layer: Path) -> Work:
    """Create, put 1 kB, exec, get, destroy."""
    spec = SandboxSpec(image=Image("busybox", (layer,)))

    async def live(backend: SandboxBackend) -> None:
        async with open_sandbox(backend, spec) as sandbox:
            await put_file(sandbox, "/app/input", CONTENT)
            assert (await sandbox.exec(ExecSpec(("/bin/true",)))).exit_code == 0
            assert await get_file(sandbox, "/app/input", limit=10_000) == CONTENT

    return live


def small_trial(layer: Path, folder: Path) -> Work:
    """An agent that asks a model three times, a verifier, a record."""
    for name, text in TASK.items():
        (folder / "task" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "task" / name).write_text(text)
    task, numbers = load_task(folder / "task"), count(1)
    agent = AgentOptions(name="command", command=AGENT)
    model = ModelAccess(ScriptedModel([REPLY] * 3), SessionOptions(), PriceTable(models={}))
    digest, options = digest_folder(folder / "task"), TrialOptions(image=str(layer))

    async def run(backend: SandboxBackend) -> None:
        number = next(numbers)
        place = folder / f"trial-{number}"
        place.mkdir()
        spec = TrialSpec(f"t.{number}", task, digest, agent, options=options)
        record = await run_trial(spec, Machinery(backend, model=model), place)
        assert record.outcome == "pass", record
        assert record.model_usage is not None
        assert record.model_usage.calls == 3

    return run


async def rate(work: Work, backend: SandboxBackend, runs: int, at_once: int) -> float:
    """Runs per second with so many of them under way at any time."""
    todo = iter(range(runs))

    async def worker() -> None:
        for _ in todo:
            await work(backend)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
    return runs / (time.perf_counter() - start)


async def compare(title: str, work: Work, backends: dict[str, SandboxBackend], promised: int) -> None:
    """Rates of all backends, each at its turn, again and again."""
    print(f"\n{title + ' per second':30}" + "".join(f"{name:>12}" for name in backends) + "   ours against Docker")
    for backend in backends.values():
        await work(backend)  # the first use of anything is not what is measured
    for at_once in AT_ONCE:
        rates: dict[str, list[float]] = {name: [] for name in backends}
        for _ in range(ROUNDS):
            for name, backend in backends.items():
                runs = ENGINE_RUNS[at_once] * (OUR_SHARE if name == "embedded" else 1)
                rates[name].append(await rate(work, backend, runs, at_once))
        found = {name: median(each) for name, each in rates.items()}
        ratio = found["embedded"] / found["docker"]
        print(f"{f'{at_once} at once':30}" + "".join(f"{each:12.1f}" for each in found.values()) + f"{ratio:12.1f} x")
    print(f"{'promised':30}{'':{12 * len(backends)}}{f'≥ {promised} x':>14}")


async def main() -> None:
    """Everything, one after the other."""
    engines: tuple[Engine, ...] = ("docker", "podman") if "--podman" in sys.argv else ("docker",)
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as scratch:
        folder = Path(scratch)
        layer = make_layer(folder)
        async with AsyncExitStack() as stack:
            backends: dict[str, SandboxBackend] = {"embedded": await stack.enter_async_context(EmbeddedBackend())}
            for engine in engines:
                opened = await stack.enter_async_context(EngineBackend(engine, engine_endpoint(engine)))
                backends[engine] = opened
            await compare("Lifecycles", lifecycle(layer), backends, PROMISED_LIFECYCLES)
            await compare("Small trials", small_trial(layer, folder), backends, PROMISED_TRIALS)


if __name__ == "__main__":
    reason = why_no("docker")
    if reason is not None:
        raise SystemExit(f"nothing to compare with: {reason}")
    asyncio.run(main())
    compare_builds(engine_endpoint("docker"))
