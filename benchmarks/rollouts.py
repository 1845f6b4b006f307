"""What a rollout costs with an instant model, beside verifiers in the same run, and what many of them hold in memory.

verifiers is run by the Python that $SEATRIAL_VERIFIERS_PYTHON names, one with `pip install verifiers==0.3.1`; without
it there is only our side. The two take turns, and of several runs the best counts: others may use the machine too.
"""

import asyncio
import gc
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import seatrial as vf
from benchmarks import harborenv_agents as agents
from benchmarks.harborenv import show

COUNT, RUNS = 5_000, 3
MANY = 100_000
WORKER = Path(__file__).with_name("rollouts_worker.py")
HARBOR_OF_VERIFIERS_SEC = 9.7
"""What one rollout of its HarborEnv waited for, sandbox and all, when issue 21 was written; it needs an account."""


def measure_single_turns() -> None:
    """CPU, time and memory of single-turn rollouts, ours and theirs by turns."""
    pythons = {"seatrial": sys.executable}
    if theirs := os.environ.get("SEATRIAL_VERIFIERS_PYTHON"):
        pythons["verifiers"] = theirs
    else:
        print("verifiers: not measured, SEATRIAL_VERIFIERS_PYTHON names no Python that has it")
    best: dict[str, dict[str, float]] = {}
    for _, (library, python) in itertools.product(range(RUNS), pythons.items()):
        found = _measured(python, library)
        best[library] = {name: min(value, best.get(library, found)[name]) for name, value in found.items()}
    for library, found in best.items():
        promised = library == "seatrial"
        show(f"{library}: CPU of a single-turn rollout", found["cpu"] * 1000, 0.35 if promised else None, "ms")
        show(f"{library}: memory, with all {COUNT} outputs", found["memory"], 100 if promised else None, "MB")
        print(f"{library}: {1 / found['wall']:,.0f} rollouts a second")
    if "verifiers" in best:
        print(f"theirs takes {best['verifiers']['cpu'] / best['seatrial']['cpu']:.1f} times the CPU")


def _measured(python: str, library: str) -> dict[str, float]:
    command = [python, str(WORKER), library, str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_memory_of_many() -> None:
    """What the process holds while a stream goes on of which nothing is kept."""

    async def model(messages: vf.Messages) -> str:
        return "yes"

    async def read() -> list[float]:
        env = vf.MultiTurnEnv(dataset=[{"question": "Say yes."}], rubric=vf.Rubric([_one]), max_turns=1)
        held = []
        row: dict[str, Any] = {"question": "Say yes."}
        async for number, _ in _counted(env.stream(itertools.repeat(row, MANY), model, "m")):
            if number % (MANY // 10) == 0:
                gc.collect()
                held.append(_resident_mb())
        return held

    began = time.perf_counter()
    held = asyncio.run(read())
    show(f"memory after {MANY // 10:,} rollouts of a stream", held[0], 100, "MB")
    show(f"  and how much more after {MANY:,}", held[-1] - held[0], 2, "MB")
    print(f"  which took {time.perf_counter() - began:.0f} s")


async def _one() -> float:
    return 1.0


async def _counted(stream: Any) -> Any:
    number = 0
    async for output in stream:
        number += 1
        yield number, output


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def measure_harbor() -> None:
    """A rollout of HarborEnv with a sandbox and a verifier, one at a time."""
    with TemporaryDirectory(prefix="seatrial-") as folder:
        tasks = agents.write_task(Path(folder))
        _, instant = asyncio.run(agents.measure_instant_rollout(tasks))
    show("instant rollout of HarborEnv, sandbox and all", instant, HARBOR_OF_VERIFIERS_SEC / 100, "s")


def main() -> None:
    measure_single_turns()
    measure_memory_of_many()
    measure_harbor()


if __name__ == "__main__":
    main()
