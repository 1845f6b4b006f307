"""The gate that sees what the harness itself costs: for each hot path a number that the machine's mood does not change.

`make ratchet` prints what is counted now, what is stored in ratchet.toml and their ratio; it ends with 1 where a number
is more than 5 % over the stored one. `make ratchet UPDATE=1` stores what is counted. With names of paths,
`python -m benchmarks.ratchet` looks at these only, and prints where their calls come from. ratchet_paths.py has them.

Counted are calls of functions, of Python and of C, in all threads of one process. Processor instructions would be
better, but most virtual machines do not count them. Left out is what the event loop, its threads and the import system
do, for that depends on which of two things ended first; what is imported is counted as modules instead. So are walks of
folders, such as those of all control groups of the machine. How much a call does is not seen: one function that has
become slower is found by the other benchmarks.

The numbers belong to one version of Python, for the others call other functions of the standard library.
"""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tomli

REPOSITORY = Path(__file__).parents[1]
STORED = Path(__file__).with_suffix(".toml")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TOLERANCE = 1.05
SHOWN = 40
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None

LEFT_OUT = re.compile(
    r"<frozen (importlib|zipimport|os>)|/(asyncio|concurrent|importlib)/"
    r"|/(selectors|threading|queue|weakref|benchmarks/ratchet)\.py$"
)

Numbers = dict[str, dict[str, int]]
"""By path: its calls, or the modules and the calls of a cold start."""


class Calls:
    """Counts what is called while a block lasts, in this thread and in those that begin meanwhile."""

    def __init__(self) -> None:
        self._threads: list[Counter[CodeType]] = []

    def __enter__(self) -> "Calls":
        gc.collect()
        gc.disable()  # what it would finish, and when, depends on all that was there before
        threading.setprofile(self._begin)
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()

    def _begin(self, *_: object) -> None:
        counts: Counter[CodeType] = Counter()  # one for each thread, since adding to it takes two steps
        self._threads.append(counts)

        def note(frame: FrameType, event: str, _: object) -> None:
            if event in ("call", "c_call"):
                counts[frame.f_code] += 1

        sys.setprofile(note)

    def by_function(self) -> Counter[str]:
        """How often each function was entered, with the functions of C that it called."""
        found: Counter[str] = Counter()
        for counts in self._threads:
            for code, number in counts.items():
                if not LEFT_OUT.search(code.co_filename):
                    found[f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"] += number
        return found


def count_here(name: str) -> None:
    """Count one path in this process, and print its numbers and its functions as JSON."""
    from benchmarks.ratchet_paths import PATHS  # noqa: PLC0415 - what a cold start imports is not here before

    path = PATHS[name]
    with tempfile.TemporaryDirectory(prefix="seatrial-ratchet-", dir=MEMORY) as scratch, ExitStack() as stack:
        work = path.prepare(Path(scratch), stack)
        if not path.cold:
            work()
        there, calls = len(sys.modules), Calls()
        with calls:
            work()
        modules = len(sys.modules) - there
    functions = calls.by_function()
    numbers = {"modules": modules} if path.cold else {}
    print(json.dumps([{**numbers, "calls": functions.total()}, functions.most_common(SHOWN)]))


def count_path(name: str) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """The numbers of one path, counted in a process of its own, and the functions with most of its calls."""
    environ = {**os.environ, "PYTHONHASHSEED": "0", "SEATRIAL_OFFLINE": "1", "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", f"from benchmarks.ratchet import count_here; count_here({name!r})"]
    with tempfile.TemporaryDirectory(prefix="seatrial-ratchet-") as home:
        environ |= {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "XDG_CACHE_HOME": f"{home}/cache"}
        printed = [
            # The first one may write bytecode. The less counts: the watch on the machine looks at it now and then.
            subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environ, check=True).stdout
            for _ in range(2)
        ]
    counted = [json.loads(each.splitlines()[-1]) for each in printed]
    numbers, functions = min(counted, key=lambda found: found[0]["calls"])
    return numbers, functions


def count_paths(names: list[str]) -> Numbers:
    with ThreadPoolExecutor(2) as threads:
        return dict(zip(names, (numbers for numbers, _ in threads.map(count_path, names)), strict=True))


def stored() -> dict[str, Any]:
    values: dict[str, Any] = tomli.loads(STORED.read_text())
    return values


def store(counted: Numbers) -> None:
    paths = {**stored()["paths"], **counted}
    head = STORED.read_text().partition("python =")[0]
    lines = [f'"{path}" = {{ {", ".join(f"{k} = {v}" for k, v in paths[path].items())} }}' for path in paths]
    STORED.write_text(f'{head}python = "{PYTHON}"\n\n[paths]\n' + "\n".join(lines) + "\n")


def over(counted: Numbers, limits: Numbers) -> list[str]:
    """The numbers that are more than the tolerance above the stored ones, as sentences; and paths without any."""
    return [
        f"{path}: {number:,} {what}, stored are {limits.get(path, {}).get(what, 0):,}"
        for path, numbers in counted.items()
        for what, number in numbers.items()
        if number > limits.get(path, {}).get(what, 0) * TOLERANCE
    ]


def main() -> int:
    """Print the table; returns the exit code."""
    from benchmarks.ratchet_paths import PATHS  # noqa: PLC0415 - as above

    named = sys.argv[1:]
    counted = count_paths(named or list(PATHS))
    limits: Numbers = stored()["paths"]
    print(f"{'':28}{'now':>10}{'stored':>10}{'ratio':>8}")
    for path, numbers in counted.items():
        for what, number in numbers.items():
            limit = limits.get(path, {}).get(what, 0)
            print(f"{f'{path}, {what}':28}{number:10,}{limit:10,}{number / limit if limit else float('nan'):8.3f}")
    for path in named:
        print(f"\n{path}")
        for function, number in count_path(path)[1]:
            print(f"{number:10,}  {function.removeprefix(f'{REPOSITORY}/')}")
    if os.environ.get("UPDATE"):
        store(counted)
        return 0
    if stored()["python"] != PYTHON:
        print(f"the stored numbers are of Python {stored()['python']}, this is {PYTHON}: nothing to compare")
        return 0
    above = over(counted, limits)
    print(*above, sep="\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
