"""Tables, comparisons and reports of a job with 100,000 trials: CPU time, memory and size against what is promised.

Each is a process of its own, as a user starts it, on a folder in memory where there is room for one. Commands that this
version does not have are passed over with a word. `--keep FOLDER` makes the job there, or uses the one that is there.
"""

import argparse
import datetime as dt
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import DIGEST, NOW, make_record
from seatrial.cli.main import COMMANDS
from seatrial.model.base import to_json, trial_id
from seatrial.model.evaluation import ErrorSource, ErrorTag
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, TaskLabels
from seatrial.model.record import AgentRef, ModelUsage, PhaseTime, Provenance, TrialRecord
from seatrial.store.index import Index, entry_of, stamp_of
from seatrial.store.job_store import JobStore

TASKS, AGENTS, ATTEMPTS = 1_000, 10, 10
MOST_BYTES = 5 * 10**6
RUNS = 3  # of what is promised something; the least counts, since neighbours of a busy machine cost more, never less


@dataclass(frozen=True)
class Case:
    """A command, how much CPU time it may take, and the file that it makes."""

    what: str
    arguments: tuple[str, ...]
    promised: float | None
    makes: str | None = None


CASES = (
    Case("show", ("show", "{job}"), 2.0),
    Case("show some", ("show", "{job}", "--where", "outcome=fail,task=task-00*"), 2.0),
    Case("show as JSON", ("show", "{job}", "--json"), None),
    Case("compare two agents", ("compare", "{job}", "--agent", "agent-8", "--agent", "agent-9"), 3.0),
    Case("compare ten agents", ("compare", "{job}"), None),
    Case("leaderboard", ("leaderboard", "{job}"), None),
    Case("report as HTML", ("report", "{job}", "-o", "{out}/report.html"), 10.0, "report.html"),
    Case("report as CSV", ("report", "{job}", "-o", "{out}/report.csv"), None, "report.csv"),
)


def make_one(dice: random.Random, task: str, agent: int, attempt: int) -> TrialRecord:
    """A trial like many others: agents get better from one to the next, tasks harder."""
    skill = 0.2 + 0.06 * agent
    reward = float(dice.random() < skill) if dice.random() < 0.8 else round(dice.random(), 2)
    plain = make_record(trial_id(task, f"agent-{agent}", attempt), task, attempt)
    finished = NOW + dt.timedelta(seconds=dice.expovariate(1 / 60))
    assert plain.evaluation is not None
    tags = [ErrorTag(category=dice.choice(("off_by_one", "unit_mismatch")), source=ErrorSource.MECHANICAL)]
    parts = {name: {"score": round(dice.random(), 2), "max_score": 1.0} for name in ("style", "speed", "result")}
    judged = {"reward": reward, "breakdown": parts, "error_taxonomy": None if reward == 1.0 else tags}
    return plain.model_copy(
        update={
            "agent": AgentRef(name=f"agent-{agent}"),
            "times": (PhaseTime(phase="agent", started_at=NOW, finished_at=finished),),
            "model_usage": ModelUsage(calls=9, input_tokens=9_000, output_tokens=700, cost_usd=0.01 * dice.random()),
            "provenance": Provenance(tests_digest=DIGEST, reward_file="reward.txt"),
            "evaluation": plain.evaluation.model_copy(update=judged),
        }
    )


def make_large(folder: Path) -> None:
    """A finished job, as the engine leaves it but without its care."""
    labels = [TaskLabels(category=f"kind-{n % 7}", difficulty=("easy", "hard")[n % 2]) for n in range(TASKS)]
    tasks = tuple(
        LockedTask(id=f"task-{n:04}", name=f"task-{n:04}", root=f"/nowhere/{n}", digest=DIGEST, labels=labels[n])
        for n in range(TASKS)
    )
    agents = tuple(AgentOptions(name=f"agent-{n}") for n in range(AGENTS))
    spec = JobSpec(name="large", tasks=("/nowhere",), agents=agents, attempts=ATTEMPTS)
    store = JobStore.create(folder, JobFile(seatrial_version="0", created_at=NOW, spec=spec, tasks=tasks))
    lines, dice = Index(folder, store.file, is_own=True), random.Random(19)  # noqa: S311 - numbers, no secrets
    with (folder / "index.jsonl").open("wb") as index:
        for task in tasks:
            for number in range(AGENTS * ATTEMPTS):
                agent, attempt = divmod(number, ATTEMPTS)
                record = make_one(dice, task.id, agent, attempt + 1)
                trial = folder / "trials" / record.trial_id
                trial.mkdir()
                (trial / "record.json").write_bytes(to_json(record))
                stamp = stamp_of(f"{trial}/record.json")
                assert stamp is not None
                index.write(lines.line(entry_of(record, f"agent-{agent}"), stamp))


def run(arguments: list[str]) -> tuple[int, float, float, int]:
    """Run the command; returns its exit code, wall seconds, CPU seconds and peak memory in bytes."""
    begun = time.monotonic()
    with Path(os.devnull).open("wb") as nothing:
        program = [sys.executable, "-m", "seatrial", *arguments]
        child = os.posix_spawn(
            sys.executable, program, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1)]
        )
        _, status, used = os.wait4(child, 0)
    took = time.monotonic() - begun
    return os.waitstatus_to_exitcode(status), took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def measure(case: Case, job: Path, out: Path) -> None:
    if case.arguments[0] not in COMMANDS:
        print(f"{case.what:19} there is no such command in this version")
        return
    arguments = [part.format(job=job, out=out) for part in case.arguments]
    runs = [run(arguments) for _ in range(RUNS if case.promised else 1)]
    code, took, cpu, memory = min(runs, key=lambda each: each[2])
    if code:
        print(f"{case.what:19} ended with exit code {code}: not measured")
        return
    verdict = "" if case.promised is None else f"   promised ≤ {case.promised:g} s {kept(cpu, case.promised)}"
    size = (out / case.makes).stat().st_size if case.makes else 0
    made = f"   {size / 1e6:.1f} MB" if size else ""
    if case.makes == "report.html":
        made += f", promised ≤ {MOST_BYTES / 1e6:g} MB {kept(size, MOST_BYTES)}"
    print(f"{case.what:19} {cpu:6.2f} s CPU {took:6.2f} s wall {memory / 2**20:6.0f} MiB{verdict}{made}")


def kept(measured: float, promised: float) -> str:
    return "kept" if measured <= promised else "BROKEN"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the job here, or use the one that is there")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        job = keep or Path(name) / "large"
        if not job.exists():
            print(f"making a job of {TASKS * AGENTS * ATTEMPTS:,} trials …", flush=True)
            make_large(job)
        run(["--help"])  # the first start compiles
        for case in CASES:
            measure(case, job, Path(name))


if __name__ == "__main__":
    main()
