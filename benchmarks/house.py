"""How large the house is: files, lines, what starting loads, and how long the walks to a trial are.

`make house` prints each number beside the one that is wanted in the end, and `make house CHAINS=1` also the frames of
both walks. `make house UPDATE=1` stores what `tests/test_house.py` holds the tree to, in house.toml.

A walk is one command in a process of its own; what happens in its sandboxes is not of it. The files that it passes are
those of which a function is entered, in any thread. Its frames are those on the stack when the trial is entered: of
coroutines, those that await it; of a task, those that made the task, and so on to the beginning. Neither the first nor
the last one is counted, nor are those of other libraries.
"""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import tomli

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "src" / "seatrial"
STORED = Path(__file__).with_suffix(".toml")
SMALL = 100
LOADED = "; import sys; print(sum(name.partition('.')[0] == 'seatrial' for name in sys.modules))"

TARGETS = {
    "source files": 430,
    "source lines": 96_000,
    "median lines of a source file": 220,
    "lines of the largest source file": 600,
    "modules loaded by the run command": 100,
    "modules loaded by HarborEnv": None,
    "small modules with one importer, beside it": 0,
    "test files": 400,
    "test lines": 80_000,
    "files passed by `run`": 100,
    "packages passed by `run`": None,
    "frames from carry_out to run_trial": 5,
    "files passed by HarborEnv.evaluate": 110,
    "packages passed by HarborEnv.evaluate": None,
    "frames from evaluate to open_trial": 12,
}
MAY_GROW = {"median lines of a source file"}


def count() -> dict[str, int]:
    """What can be counted without running anything but imports."""
    harbor_env = start("import seatrial; seatrial.HarborEnv" + LOADED)
    run_command = start(f"import {output(start('from benchmarks.house import run_module; run_module()'))}" + LOADED)
    sources = lines_of(PACKAGE)
    tests = lines_of(REPOSITORY / "tests")
    return {
        "source files": len(sources),
        "source lines": sum(sources.values()),
        "median lines of a source file": round(median(sources.values())),
        "lines of the largest source file": max(sources.values()),
        "modules loaded by the run command": int(output(run_command)),
        "modules loaded by HarborEnv": int(output(harbor_env)),
        "small modules with one importer, beside it": len(lonely_modules() - stored("exceptions").keys()),
        "test files": len(tests),
        "test lines": sum(tests.values()),
    }


def lines_of(folder: Path) -> dict[Path, int]:
    return {path: path.read_bytes().count(b"\n") for path in folder.rglob("*.py")}


def start(code: str) -> subprocess.Popen[str]:
    """A Python of its own at work on it."""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)


def output(process: subprocess.Popen[str]) -> str:
    """The last line that it prints."""
    printed = process.communicate()[0]
    assert process.returncode == 0
    return printed.splitlines()[-1]


def command_line() -> Any:
    """The module that `seatrial` starts."""
    (script,) = entry_points(group="console_scripts", name="seatrial")
    script.load()
    return sys.modules[script.module]


def run_module() -> None:
    """Print where the command `run` lives."""
    import click  # noqa: PLC0415 - only here

    group = next(value for value in vars(command_line()).values() if isinstance(value, click.Group))
    command = group.get_command(click.Context(group), "run")
    assert command
    assert command.callback
    print(command.callback.__module__)


@cache
def lonely_modules() -> frozenset[str]:
    """Modules of less than 100 lines that one module imports, which lies in the same folder."""
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in texts}
    texts[REPOSITORY / "pyproject.toml"] = (REPOSITORY / "pyproject.toml").read_text()  # has the entry points
    importers: dict[str, set[Path]] = defaultdict(set)
    for path, text in texts.items():
        for name in mentioned(text) & names.keys():
            importers[name].add(path)
    return frozenset(
        name
        for name, path in names.items()
        if texts[path].count("\n") < SMALL and [user.parent for user in importers[name]] == [path.parent]
    )


def mentioned(text: str) -> set[str]:
    """What a file imports, anywhere in it, or names in a string."""
    found = set(re.findall(r"""(?:["']|^\s*import )(seatrial\.[\w.]+)""", text, flags=re.MULTILINE))
    for package, several, one in re.findall(
        r"^\s*from (seatrial[\w.]*) import (?:\(([^)]*)|(.*))", text, flags=re.MULTILINE
    ):
        found |= {package, *(f"{package}.{name}" for name in re.findall(r"\w+", several or one))}
    return found


def stored(part: str) -> dict[str, Any]:
    """`limits`, or `exceptions`: small modules that may stay, each with its reason."""
    values: dict[str, Any] = tomli.loads(STORED.read_text())[part]
    return values


class Walk:
    """Which functions of ours are entered, and the stack when the first one of a name is."""

    def __init__(self, beginning: str, end: str) -> None:
        self.beginning, self.end = beginning, end
        self.files: set[Path] = set()
        self.stack: list[str] = []
        self._makers: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()

    def follow(self, walk: Callable[[], object]) -> None:
        """Carry it out and print what was found."""
        make = asyncio.BaseEventLoop.create_task

        def create_task(loop: asyncio.BaseEventLoop, *given: Any, **options: Any) -> asyncio.Task[Any]:
            task = make(loop, *given, **options)
            self._makers[task] = self._frames(sys._getframe(1))  # noqa: SLF001 - the only way to the stack
            return task

        asyncio.BaseEventLoop.create_task = create_task  # type: ignore[method-assign,assignment]
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        try:
            walk()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        stack = self.stack[::-1]
        chain = stack[[name.rpartition(" ")[2] for name in stack].index(self.beginning) :]
        packages = {path.relative_to(PACKAGE).parts[0] for path in self.files if path.parent != PACKAGE}
        print(json.dumps([len(self.files), len(packages), len(chain) - 2, chain]))

    def _enter(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event != "call" or not is_ours(frame) or not code.co_flags & inspect.CO_OPTIMIZED
        ):  # bodies of modules and classes
            return
        self.files.add(Path(code.co_filename))
        if code.co_name == self.end and not self.stack:
            self.stack = self._frames(frame)

    def _frames(self, frame: FrameType | None) -> list[str]:
        """The functions of ours on the stack, innermost first, and on those of the makers of tasks."""
        found = []
        while frame is not None:
            if is_ours(frame):
                code = frame.f_code
                found.append(f"{Path(code.co_filename).relative_to(PACKAGE)} {code.co_name}")
            elif frame.f_code is asyncio.Handle._run.__code__:  # noqa: SLF001 - where the stack of a task begins
                task = asyncio.current_task()
                if task is not None and task in self._makers:
                    return found + self._makers[task]
            frame = frame.f_back
        return found


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(f"{PACKAGE}{os.sep}")


def walk_run() -> None:
    with tempfile.TemporaryDirectory(prefix="seatrial-") as scratch:
        task = str(REPOSITORY / "examples" / "tasks" / "beam-deflection")
        means = ["--image", "host", "--allow-partial-limits", "-q", "-o", f"{scratch}/job"]
        run = command_line().run
        Walk("carry_out", "run_trial").follow(lambda: run(["run", "-p", task, "-a", "oracle", *means]))


CALL = """exec python3 -c 'import os, urllib.request as u; u.urlopen(u.Request(
  os.environ["OPENAI_BASE_URL"] + "/chat/completions",
  b"{\\"model\\": \\"m\\", \\"messages\\": [{\\"role\\": \\"user\\", \\"content\\": \\"?\\"}]}",
  {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"})).read()'"""


def walk_evaluate() -> None:
    from seatrial import HarborEnv  # noqa: PLC0415 - what importing it takes is not walked

    tasks = REPOSITORY / "examples" / "tasks" / "beam-deflection"
    env = HarborEnv(CALL, tasks, image="host", enforcement="partial")
    Walk("evaluate", "open_trial").follow(lambda: asyncio.run(env.evaluate(lambda _: "ok", "m")))


def main() -> None:
    counted = count()
    if os.environ.get("UPDATE"):
        for name, number in counted.items():
            limit = re.compile(rf'^"{re.escape(name)}" = \d+$', re.MULTILINE)
            STORED.write_text(limit.sub(f'"{name}" = {number}', STORED.read_text()))
    chains = []
    for walk, names in (("walk_run", list(TARGETS)[9:12]), ("walk_evaluate", list(TARGETS)[12:])):
        *numbers, chain = json.loads(output(start(f"from benchmarks.house import {walk}; {walk}()")))
        counted |= dict(zip(names, numbers, strict=True))
        chains.append(chain)
    print(f"{'':44}{'now':>9}{'wanted':>9}")
    for name, number in counted.items():
        print(f"{name:44}{number:9,}{'' if TARGETS[name] is None else TARGETS[name]:>9}")
    if os.environ.get("CHAINS"):
        print(*("\n" + "\n".join(chain) for chain in chains), sep="\n")


if __name__ == "__main__":
    main()
