"""What rollouts of agents cost: an instant one, a hundred side by side, and one of 400 turns."""

import asyncio
import json
import time
import tracemalloc
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import aiohttp

import seatrial as vf
from seatrial.env.results import Results
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer

TURNS, TURN_BYTES = 400, 2048
INSTANT_SEC, LONG_MB = 0.15, 4.0
AGENT = "echo right > /app/answer.txt"
TEST = """#!/bin/sh
if grep -qx right /app/answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
FILES = {
    "task.toml": '[environment]\nnetwork_mode = "no-network"\n',
    "instruction.md": "Write the word right to /app/answer.txt.\n",
    "tests/test.sh": TEST,
}


def write_task(root: Path) -> Path:
    for name, text in FILES.items():
        (root / "task" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "task" / name).write_text(text)
    return root


def silent(messages: vf.Messages) -> str:
    return "ok"


async def measure_instant_rollout(tasks: Path, runs: int = 15) -> tuple[float, float]:
    """Seconds from `evaluate` to its results for one rollout of an agent that is done at once, sandbox and all.

    The first one, for which the backend is opened, and the median of the others.
    """
    taken = []
    async with vf.HarborEnv(AGENT, tasks, image="host") as env:
        for _ in range(runs):
            began = time.perf_counter()
            results = await env.evaluate(silent, "m")
            taken.append(time.perf_counter() - began)
            assert results["metadata"]["avg_reward"] == 1.0, results["outputs"]
    return taken[0], median(taken[1:])


def measure_many_rollouts(tasks: Path, count: int = 100, concurrent: int = 32) -> float:
    """Seconds for so many of them side by side."""
    env = vf.HarborEnv(AGENT, tasks, image="host")
    began = time.perf_counter()
    results = env.evaluate_sync(silent, "m", rollouts_per_example=count, max_concurrent=concurrent)
    assert results["metadata"]["scored"] == count, results["metadata"]
    return time.perf_counter() - began


async def _chatter(spec: ExecSpec, _: FakeSandbox) -> ExecResult:
    """An agent in memory with a conversation of many turns, sent whole each time as agents do."""
    if spec.phase == "verifier":
        return answer()
    text = "x" * (TURN_BYTES // 2)
    conversation: list[dict[str, str]] = []
    headers = {"authorization": f"Bearer {spec.env['OPENAI_API_KEY']}"}
    async with aiohttp.ClientSession(spec.env["OPENAI_BASE_URL"] + "/", headers=headers) as session:
        for number in range(TURNS):
            conversation.append({"role": "user", "content": f"{number} {text}"})
            body = json.dumps({"model": "m", "messages": conversation}).encode()
            async with session.post("chat/completions", data=body) as reply:
                conversation.append((await reply.json())["choices"][0]["message"])
    return answer()


def measure_long_rollout(tasks: Path) -> float:
    """MB that the results of a rollout of 400 turns hold."""

    def talking(messages: vf.Messages) -> str:
        return f"{len(messages)} " + "y" * (TURN_BYTES // 2)

    def run() -> Results:
        env = vf.HarborEnv("agent", tasks, backend=FakeBackend(_chatter), image="host")
        return asyncio.run(env.evaluate(talking, "m"))

    run()
    tracemalloc.start()
    results = run()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(results["outputs"][0]["trajectory"]) == TURNS, results["outputs"][0]["error"]
    return held / 2**20


def main() -> None:
    with TemporaryDirectory(prefix="seatrial-") as folder:
        tasks = write_task(Path(folder))
        first, instant = asyncio.run(measure_instant_rollout(tasks))
        print(f"instant rollout through evaluate: {instant:.3f} s (promised ≤ {INSTANT_SEC}), the first {first:.3f} s")
        print(f"100 rollouts, 32 at once: {measure_many_rollouts(tasks):.2f} s")
        print(f"results of a {TURNS}-turn rollout: {measure_long_rollout(tasks):.2f} MB (promised ≤ {LONG_MB})")


if __name__ == "__main__":
    main()
