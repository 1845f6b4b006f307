"""What a container has consumed, as far as its engine counts it."""

import json
import time
from typing import Any

from seatrial.model.record import ResourceUse
from seatrial.sandbox.engine.client import EngineClient


async def measure(client: EngineClient, container: str) -> ResourceUse:
    """Processor time, the most memory where the kernel keeps it, the disk, and kills for want of memory."""
    stats: dict[str, Any] = await client.ask(
        "GET", f"/containers/{container}/stats", **{"stream": "false", "one-shot": "true"}
    )
    found: dict[str, Any] = await client.ask("GET", f"/containers/{container}/json", size="1")
    processor = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    memory = stats.get("memory_stats") or {}
    size = found.get("SizeRw")
    return ResourceUse(
        cpu_sec=processor.get("total_usage", 0) / 1e9,
        peak_memory_bytes=memory.get("max_usage") or None,
        disk_bytes=None if size is None else max(0, int(size)),
        oom_kills=await _oom_kills(client, container, found["Id"]),
    )


async def _oom_kills(client: EngineClient, container: str, number: str) -> int:
    """How often the kernel said that memory ran out: engines keep it among their events."""
    filters = json.dumps({"container": [number], "event": ["oom"]})
    query = {"since": "0", "until": f"{time.time():.6f}", "filters": filters}
    async with client.open("GET", "/events", None, query) as response:
        lines = (await response.read()).splitlines()
    return sum(1 for line in lines if line.strip())
