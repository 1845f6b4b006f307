"""What environments cost: importing them, keeping a long rollout, running many small ones; against what is promised.

Times are CPU time of this process and its children; memory is what Python holds, as tracemalloc counts it, and for the
import what the process holds altogether.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import seatrial as vf
from benchmarks import harborenv_agents as agents

TURNS, TURN_BYTES = 400, 2048
IMPORT = """
import resource, time
start = time.process_time()
import seatrial as vf
from benchmarks import harborenv_agents as agents
vf.HarborEnv, vf.ClientConfig, vf.Rubric, vf.State
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def show(what: str, measured: float, promised: float | None, unit: str) -> None:
    verdict = (
        "" if promised is None else f"promised ≤ {promised:g} {unit}   {'kept' if measured <= promised else 'BROKEN'}"
    )
    print(f"{what:52} {measured:8.3f} {unit:3}  {verdict}")


def measure_import() -> None:
    runs = [subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True).stdout for _ in range(7)]
    seconds, megabytes = zip(*(map(float, run.split()) for run in runs), strict=True)
    show("import seatrial with HarborEnv", median(seconds), 0.4, "s")
    show("  memory of the process then", median(megabytes), 60, "MB")


class Chatter(vf.MultiTurnEnv):
    """An environment that answers whatever the model says, half of a turn's bytes each."""

    async def env_response(self, messages: vf.Messages, state: vf.State, **_: Any) -> str:
        return text_of(len(state["trajectory"]))


def text_of(number: int) -> str:
    return f"{number:08}".ljust(TURN_BYTES // 2, "x")


def parsed(messages: vf.Messages) -> vf.Messages:
    """The conversation as it comes from an agent: parsed anew for every request."""
    again: vf.Messages = json.loads(json.dumps(messages))
    return again


class Reparsing(Chatter):
    """The same, where every prompt is made of new objects."""

    async def get_prompt_messages(self, state: vf.State) -> vf.Messages:
        return parsed(await super().get_prompt_messages(state))


def measure_long_rollout(kind: type[Chatter], name: str) -> None:
    async def model(messages: vf.Messages) -> str:
        return text_of(len(messages))

    env = kind(dataset=[{"prompt": "go"}], max_turns=TURNS)
    env.evaluate_sync(model, "m")
    began = time.process_time()
    tracemalloc.start()
    results = env.evaluate_sync(model, "m")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(results["outputs"][0]["trajectory"]) == TURNS
    show(f"memory of a {TURNS}-turn rollout, {name}", held / 2**20, 4.0, "MB")
    print(f"  which took {time.process_time() - began:.2f} s CPU while every allocation was watched")


def measure_conversations(count: int) -> None:
    async def model(messages: vf.Messages) -> str:
        await asyncio.sleep(0)
        return "ok"

    env = Chatter(dataset=[{"prompt": "go"}] * count, max_turns=3)
    began = cpu_sec()
    env.evaluate_sync(model, "m")
    show(f"each of {count} conversations of 3 turns", (cpu_sec() - began) / count * 1000, None, "ms")


def measure_agents() -> None:
    with TemporaryDirectory(prefix="seatrial-") as folder:
        tasks = agents.write_task(Path(folder))
        first, instant = asyncio.run(agents.measure_instant_rollout(tasks))
        show("instant rollout through HarborEnv.evaluate", instant, 0.15, "s")
        show("  the first one, which opens the backend", first, None, "s")
        show("100 rollouts of HarborEnv, 32 at once", agents.measure_many_rollouts(tasks), None, "s")
        show(f"memory of a {TURNS}-turn rollout of an agent", agents.measure_long_agent(tasks), 4.0, "MB")


def cpu_sec() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    measure_import()
    measure_long_rollout(Chatter, "of one piece")
    measure_long_rollout(Reparsing, "parsed anew each turn")
    measure_conversations(1_000)
    measure_agents()


if __name__ == "__main__":
    main()
