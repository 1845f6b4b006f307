"""Jobs of honest trials beside one that takes all it can get, and what became of them."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.model.record import TrialRecord
from seatrial.store.job_store import JobStore
from tests.trial.support import write_task

# Small steps over some time, each of which needs room on the disk and a process of its own.
HONEST = """#!/bin/sh
for step in 1 2 3 4 5 6 7; do
    sleep 0.1
    head -c 50000 /dev/zero >> /app/work || exit 1
done
echo right > /app/answer.txt
"""
TIMEOUT_SEC = 120.0


def write_crowd(folder: Path, honest: int, **others: str) -> Path:
    """Tasks whose solutions are honest work, and others with solutions of their own."""
    for number in range(honest):
        write_task(folder / f"honest-{number}", files={"solution/solve.sh": HONEST})
    for name, solution in others.items():
        write_task(folder / name, files={"solution/solve.sh": solution})
    return folder


def python_solution(code: str) -> str:
    """A solution that is a Python program."""
    return f"#!/bin/sh\nexec python3 -c '\n{code}\n'\n"


def command(tasks: Path, job: Path, python: str = sys.executable, concurrent: int = 8) -> list[str]:
    """The command line that runs a crowd."""
    options = ["-a", "oracle", "--image", "host", "-n", str(concurrent), "-o", str(job), "-q", "--host-wait", "60s"]
    return [python, "-m", "seatrial", "run", str(tasks), *options]


def run(arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """Run a crowd to its end; returns what was said."""
    ended = subprocess.run(
        arguments, env=dict(env), capture_output=True, text=True, timeout=TIMEOUT_SEC, check=False, cwd="/"
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout + ended.stderr


def records(job: Path) -> dict[str, TrialRecord]:
    """All records of a job by the names of their tasks."""
    store = JobStore.open(job)
    found = [store.record(name) for name in store.finished()]
    return {record.task.id: record for record in found}


def assert_fair(job: Path, honest: int) -> dict[str, TrialRecord]:
    """Every honest trial has passed, none is missing; returns the records of the others."""
    found = records(job)
    names = [f"honest-{number}" for number in range(honest)]
    assert {name: found[name].outcome for name in names if name in found} == dict.fromkeys(names, "pass")
    assert list((job / ".drafts").iterdir()) == []
    return {name: record for name, record in found.items() if name not in names}


def assert_own_doing(record: TrialRecord) -> None:
    """A trial that took everything has its zero, and the reason beside it."""
    assert record.evaluation is not None, record.failure
    assert (record.evaluation.reward, record.failure) == (0.0, None)
    assert record.outcome in ("fail", "no_output")
    assert "host_exhausted_by_agent" in {tag.category for tag in record.evaluation.error_taxonomy or ()}
