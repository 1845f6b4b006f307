"""Single-turn rollouts with an instant model in this process: `rollouts_worker.py seatrial|verifiers COUNT`.

It is run by a Python that has the library, alone in its process, so that what is measured is that library's. Prints
a line of JSON: CPU and wall seconds for each rollout after the first few, and the most memory that was held, in MB.
"""

import asyncio
import json
import logging
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

WARM_UP = 50
CONCURRENT = 32

Rollouts = Callable[[], Coroutine[Any, Any, float]]
"""Rolls out all rows of an environment that is there already, and returns their mean reward."""


async def right(completion: Any, answer: str) -> float:
    """A reward function of both libraries."""
    return float(completion[-1]["content"] == answer)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"question": f"Say {number}.", "answer": "yes", "example_id": number} for number in range(count)]


def of_seatrial(count: int) -> Rollouts:
    import seatrial as vf  # noqa: PLC0415 - only where it is installed

    async def model(messages: vf.Messages) -> str:
        return "yes"

    env = vf.MultiTurnEnv(dataset=rows(count), rubric=vf.Rubric([right]), max_turns=1)
    env.build_dataset()

    async def run() -> float:
        results = await env.evaluate(model, "m", max_concurrent=CONCURRENT)
        return float(results["metadata"]["avg_reward"])

    return run


def of_verifiers(count: int) -> Rollouts:
    import verifiers.legacy as vf  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 - as above
    from datasets import Dataset  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    from verifiers.legacy.clients import Client  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    from verifiers.legacy.types import Response  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    said = {"role": "assistant", "content": "yes", "finish_reason": "stop", "is_truncated": False}

    async def get_response(*_: Any, **__: Any) -> Any:
        return Response(id="0", created=0, model="m", message=said)

    async def nothing(*_: Any, **__: Any) -> Any:
        return None

    names = Client.__abstractmethods__
    instant = type("Instant", (Client,), {**dict.fromkeys(names, nothing), "get_response": get_response})

    env = vf.SingleTurnEnv(dataset=Dataset.from_list(rows(count)), rubric=vf.Rubric([right]))

    async def run() -> float:
        results = await env.evaluate(instant(object()), "m", max_concurrent=CONCURRENT, on_progress=lambda *_: None)
        return float(results["metadata"]["avg_reward"])

    return run


def main(library: str, count: int) -> None:
    logging.disable(logging.CRITICAL)
    make = of_seatrial if library == "seatrial" else of_verifiers
    first, all_of_them = make(WARM_UP), make(count)

    async def measured() -> tuple[float, float]:
        assert await first() == 1.0
        cpu, wall = time.process_time(), time.perf_counter()
        assert await all_of_them() == 1.0
        return time.process_time() - cpu, time.perf_counter() - wall

    cpu, wall = asyncio.run(measured())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": cpu / count, "wall": wall / count, "memory": memory}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
