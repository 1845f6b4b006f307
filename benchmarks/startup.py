"""What starting costs, in CPU seconds: help, imports, and one whole trial from a cold start, beside what others cost.

Bytecode is written once into a folder of our own and then used, as of an installed package: what compiling costs, which
a Python that is told to write no bytecode does each time anew, is not what is promised.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

RUNS = 15
CASES = {
    "python -c pass": ["-c", "pass"],
    "import click": ["-c", "import click"],
    "import pydantic": ["-c", "import pydantic"],
    "import seatrial": ["-c", "import seatrial"],
    "import seatrial, HarborEnv": ["-c", "from seatrial import HarborEnv"],
    "import seatrial, all names": ["-c", "import seatrial; [getattr(seatrial, name) for name in seatrial.__all__]"],
    "seatrial --help": ["-m", "seatrial", "--help"],
    "seatrial run, one trial": ["-m", "seatrial", "run", "{task}", "-a", "noop", "-q", "-o", "{job}"],
    "its commands alone": ["-c", "import subprocess as s; s.run(['sh', '{task}/tests/test.sh'], check=True)"],
    "verifier kit, import": ["-c", "import seatrial.verifier_kit"],
}
PROMISES = {
    "import seatrial, HarborEnv": 0.35,
    "import seatrial, all names": 0.4,
    "seatrial --help": 0.15,
    "seatrial run, one trial": 0.8,
    "verifier kit, import": 0.06,
}


def cpu_seconds(arguments: list[str], environ: dict[str, str]) -> float:
    """CPU time of one fresh interpreter, its own children included."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, env=environ, stdout=subprocess.DEVNULL, stderr=-1)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def make_task(folder: Path) -> Path:
    """A task that asks for nothing and is passed by everybody."""
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n')
    (folder / "instruction.md").write_text("Do nothing.\n")
    script = 'mkdir -p "${LOGS:=/logs/verifier}" && echo 1 > "$LOGS/reward.txt"\n'
    (folder / "tests" / "test.sh").write_text(f"#!/bin/sh\n{script}")
    return folder


def measure(scratch: Path) -> dict[str, list[float]]:
    task = make_task(scratch / "task")
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(scratch / "bytecode"), "LOGS": str(scratch / "logs")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    samples: dict[str, list[float]] = {name: [] for name in CASES}
    for number in range(RUNS + 1):  # interleaved, so that a busy moment hits all alike
        for name, arguments in CASES.items():
            given = [part.format(task=task, job=scratch / f"job-{number}") for part in arguments]
            took = cpu_seconds(given, environ)
            if number:  # the first one writes the bytecode
                samples[name].append(took)
    return samples


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        samples = measure(Path(scratch))
    floor = median(samples["python -c pass"])
    for name, values in samples.items():
        promise = f"promised ≤ {PROMISES[name]} s" if name in PROMISES else ""
        print(f"{name:28} {median(values):.3f} s CPU   {median(values) / floor:4.1f} times an empty Python   {promise}")


if __name__ == "__main__":
    main()
