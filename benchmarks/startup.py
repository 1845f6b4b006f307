"""What starting costs: CPU seconds of `seatrial --help` and `import seatrial` beside an empty Python and bare click."""

import os
import subprocess
import sys
from statistics import median

RUNS = 15
CASES = {
    "python -c pass": ["-c", "pass"],
    "import click": ["-c", "import click"],
    "import pydantic": ["-c", "import pydantic"],
    "import seatrial": ["-c", "import seatrial"],
    "import seatrial, all names": ["-c", "import seatrial; [getattr(seatrial, name) for name in seatrial.__all__]"],
    "seatrial --help": ["-m", "seatrial", "--help"],
    "verifier kit, import": ["-c", "import seatrial.verifier_kit"],
}
PROMISES = {"import seatrial, all names": 0.4, "seatrial --help": 0.15, "verifier kit, import": 0.06}


def cpu_seconds(arguments: list[str]) -> float:
    """CPU time of one fresh interpreter, its own children included."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    samples: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(RUNS):  # interleaved, so that a busy moment hits all alike
        for name, arguments in CASES.items():
            samples[name].append(cpu_seconds(arguments))
    floor = median(samples["python -c pass"])
    for name, values in samples.items():
        promise = f"promised ≤ {PROMISES[name]} s" if name in PROMISES else ""
        print(f"{name:28} {median(values):.3f} s CPU   {median(values) / floor:4.1f} times an empty Python   {promise}")


if __name__ == "__main__":
    main()
