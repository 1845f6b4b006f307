"""10,000 questions to a judge that answers at once: CPU time and wall time of each, memory on the way, and a kill.

The judge runs in a process of its own, on a job in memory where there is room for one. `--kill` ends it by `kill -9` in
the middle first; what it has stored then must be there once, and nothing of it is asked again.
"""

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.jobs import DIGEST, NOW, make_record
from seatrial.jobs.judging import Judged, JudgeOptions, prepare_judging, run_judging
from seatrial.model.base import trial_id
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask
from seatrial.store.job_store import JobStore

TRIALS, QUESTIONS = 1_000, 10
REPORT = "The voltage drop is 4.2 V over 30 m of cable.\n" * 100
_PAGE = os.sysconf("SC_PAGE_SIZE")


def make_job(folder: Path, trials: int) -> None:
    """A finished job whose trials have published a report each."""
    names = [f"task-{number:04}" for number in range(trials)]
    tasks = tuple(LockedTask(id=name, name=name, root="", digest=DIGEST) for name in names)
    spec = JobSpec(name="judged", tasks=("/tasks",), agents=(AgentOptions(name="noop"),))
    store = JobStore.create(folder, JobFile(seatrial_version="0", created_at=NOW, spec=spec, tasks=tasks))
    for name in names:
        with store.draft(trial_id(name, "noop", 1)) as draft:
            (draft.path / "report.md").write_text(f"{name}\n{REPORT}")
            draft.commit(make_record(trial_id(name, "noop", 1), name, 1))


def make_rubric(path: Path) -> None:
    """A rubric, and beside it the script of a judge that answers every question alike."""
    said = json.dumps({"reason": "so it is", "quotes": [], "answer": True})
    path.with_name("judge.json").write_text(json.dumps({"rules": [{"say": said}]}))
    questions = "".join(f'[[question]]\nid = "q{number}"\ntext = "Is {number} right?"\n' for number in range(QUESTIONS))
    path.write_text(f'guard = false\nevidence = ["verifier"]\n{questions}')


async def judge(folder: Path, rubric: Path) -> None:
    """Judge the job; print how many trials were asked about, and the memory taken in the middle and at the end."""
    store = JobStore.open(folder)
    upstream = f"scripted:{rubric.with_name('judge.json')}"
    prepared = prepare_judging(store, store.entries(), JudgeOptions(rubric, ("judge",), upstream))
    memory: list[int] = []
    done = fresh = 0

    def observe(judged: Judged) -> None:
        nonlocal done, fresh
        done, fresh = done + 1, fresh + (not judged.is_earlier)
        if done in (len(prepared.trials) // 5, len(prepared.trials)):
            memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE)
        if done % 50 == 0:
            print("done", done, flush=True)

    begun, cpu = time.perf_counter(), time.process_time()
    await run_judging(prepared, observe)
    spent = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"fresh": fresh, "memory": memory, "peak": peak, **spent}), flush=True)


def run(folder: Path, rubric: Path, kill_after: int | None = None) -> dict[str, Any]:
    """Judge in a process of its own, which is killed once so many trials are done."""
    command = [sys.executable, "-m", "benchmarks.judge", "--child", str(folder), str(rubric)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
            if kill_after is not None and line.startswith("done") and int(line.split()[1]) >= kill_after:
                child.send_signal(signal.SIGKILL)
    return {}


def stored(folder: Path) -> list[str]:
    """The trials of all whole lines of the journal."""
    content = (folder / "assessments.jsonl").read_bytes()
    return [json.loads(line)["trial_id"] for line in content.split(b"\n")[:-1] if line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--child", nargs=2, type=Path)
    given = parser.parse_args()
    if given.child:
        asyncio.run(judge(*given.child))
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        folder, rubric = Path(place, "job"), Path(place, "rubric.toml")
        make_job(folder, given.trials)
        make_rubric(rubric)
        before = 0
        if given.kill:
            run(folder, rubric, kill_after=given.trials // 2)
            before = len(stored(folder))
            print(f"killed with {before:,} of {given.trials:,} trials stored")
        found = run(folder, rubric)
        trials = stored(folder)
        assert len(set(trials)) == len(trials) == given.trials, "each trial is stored once"
        assert found["fresh"] == given.trials - before, "what was stored is not asked about again"
        questions = found["fresh"] * QUESTIONS
        first, last = (each / 2**20 for each in found["memory"])
        print(f"{questions:,} questions in {found['wall']:.1f} s")
        print(f"each: {found['wall'] / questions * 1e3:.2f} ms, of that CPU {found['cpu'] / questions * 1e3:.2f} ms")
        print(f"memory: {first:.0f} MB after a fifth, {last:.0f} MB at the end, {found['peak'] / 2**20:.0f} MB at most")


if __name__ == "__main__":
    main()
