"""`seatrial run` as a process of its own, whose events are followed while parts of its cluster are killed."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.jobs.ray.clusters import TestCluster

Fault = Literal["runner", "node", "coordinator"]
Event = dict[str, Any]


@contextmanager
def coordinator(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A run whose lines can be read; it is gone with the block."""
    command = [sys.executable, "-m", "seatrial", *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/") as process:
        try:
            yield process
        finally:
            process.kill()


def events_of(process: "subprocess.Popen[str]") -> Iterator[Event]:
    """What it says, until it ends or is killed in the middle of a line."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)


def fault_plan(seed: int, trials: int, **times: int) -> dict[int, Fault]:
    """Which fault happens when the trial of that number starts: `fault_plan(1, 400, runner=3)`."""
    chance = random.Random(seed)
    faults = [fault for fault, count in times.items() for _ in range(count)]
    chance.shuffle(faults)
    moments = sorted(chance.sample(range(10, trials * 3 // 4), len(faults)))
    return dict(zip(moments, faults, strict=True))  # type: ignore[arg-type]


class Havoc:
    """A job that is carried out while faults happen, by one coordinator after the other until it is done."""

    def __init__(self, cluster: TestCluster, plan: Mapping[int, Fault]) -> None:
        self.cluster = cluster
        self.happened: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.retried: set[str] = set()
        self.killed: set[str] = set()
        self.runs: set[str] = set()
        self._due = dict(plan)
        self._started = 0

    def carry_out(self, job: Path, *run: str) -> None:
        """Run a job, and resume it whenever its coordinator was killed."""
        arguments = ("run", *run, "-o", str(job))
        while True:
            with coordinator(*arguments) as process:
                for event in events_of(process):
                    self._note(event, process)
                _, complaint = process.communicate()
            if process.returncode != -9:
                assert process.returncode == 0, complaint
                return
            arguments = ("resume", str(job))

    def _note(self, event: Event, process: "subprocess.Popen[str]") -> None:
        match event["event"]:
            case "trial_finished":
                self.finished[event["trial_id"]] += 1
            case "retry":
                self.retried.add(event["trial_id"])
            case "trial_started":
                self._started += 1
                if fault := self._due.pop(self._started, None):
                    self._strike(fault, event["node"], process)

    def _strike(self, fault: Fault, node: str, process: "subprocess.Popen[str]") -> None:
        self.happened[fault] += 1
        self.runs |= {path.name for name in self.cluster.nodes for path in self.cluster.state_of(name).glob("run-*")}
        if fault == "runner":
            self.cluster.kill_runner(node)
        elif fault == "coordinator":
            process.kill()
        else:
            # Not the head's daemon: without it there is no cluster, and the coordinator belongs to it.
            victim = next(name for name in self.cluster.nodes if name != self.cluster.head)
            self.cluster.kill_node(victim)
            self.killed.add(victim)
            self.cluster.add(wait=False)


def control_groups(runs: set[str]) -> list[str]:
    """The control groups of some runs that are there."""
    return [top for top, _, _ in os.walk("/sys/fs/cgroup") if Path(top).name in runs]


def leftovers(state: Path) -> list[str]:
    """What a node has in its folder besides what it keeps on purpose for the next run."""
    places = (state, state / "node", state / "node" / "files")
    return [str(path) for place in places for path in (*place.glob("run-*"), *place.glob("seatrial-scratch-*"))]
