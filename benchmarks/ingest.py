"""Evaluations per second: ingest of a typical trial against the least it could be, reading the reward alone."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from seatrial.model.output import RawArtifacts, RawFile
from seatrial.scoring.ingest import ingest
from seatrial.tasks.load import load_task

ROUNDS = 2000
TASK = Path(__file__).parent.parent / "examples" / "tasks" / "voltage-drop"

REWARD = b'{"reward": 0.93}'
DETAILS = json.dumps(
    {f"dimension_{n}": {"score": 0.9, "max_score": 1.0, "evidence": "within 2 % of the reference"} for n in range(6)}
).encode()


def rate(work: Callable[[], object]) -> float:
    """Rounds per second of CPU time, after a warm-up."""
    for _ in range(100):
        work()
    start = time.process_time()
    for _ in range(ROUNDS):
        work()
    return ROUNDS / (time.process_time() - start)


def main() -> None:
    task = load_task(TASK)
    report = (TASK / "golden/pass/workspace/report.md").read_bytes()
    contents = {"reward.json": REWARD, "details.json": DETAILS}
    files = {name: RawFile(name, "ok", data, len(data)) for name, data in contents.items()}
    raw = RawArtifacts(files, RawFile("report.md", "ok", report, len(report)))

    assert ingest(task, raw).reward == 0.93
    ours = rate(lambda: ingest(task, raw))
    stored = rate(lambda: ingest(task, raw).model_dump_json())
    floor = rate(lambda: (json.loads(REWARD)["reward"], json.loads(DETAILS)))
    print(f"ingest              {ours:9,.0f} evaluations/s   {1e6 / ours:6.0f} µs CPU each")
    print(f"ingest and store    {stored:9,.0f} evaluations/s   {1e6 / stored:6.0f} µs CPU each")
    print(f"two json.loads only {floor:9,.0f} per second       ingest costs {floor / ours:.1f} times that floor")


if __name__ == "__main__":
    main()
