"""The viewer: how soon it answers, how long pages of large jobs take and how large they are, and what watching costs.

Each viewer is a process of its own, as a user starts it, on folders in memory where there is room for them. `--keep
FOLDER` makes the jobs there, or uses those that are there.
"""

import argparse
import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import report
from benchmarks.jobs import make_finished

RUNS = 5  # the least counts, since neighbours of a busy machine cost more, never less
STORING = """
import sys
from pathlib import Path
from benchmarks.jobs import measure_storing
measure_storing(Path(sys.argv[1]), Path("examples/tasks/voltage-drop"), int(sys.argv[2]), None)
"""


class Viewer:
    """A viewer that runs, and a browser's way to ask it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the viewer printed no address"
        self._place = urlsplit(found[0])
        self._headers = {"Authorization": f"Bearer {self._place.query.removeprefix('token=')}"}

    def get(self, path: str) -> tuple[float, int]:
        """How many seconds an answer takes, and how many bytes it has."""
        connection = self._connection()
        begun = time.perf_counter()
        connection.request("GET", path, headers=self._headers)
        response = connection.getresponse()
        size = len(response.read())
        took = time.perf_counter() - begun
        assert response.status == 200, f"{path}: {response.status}"
        connection.close()
        return took, size

    def get_whole(self, path: str) -> float:
        """How many seconds it takes until an answer is more than a word that it is on its way."""
        connection = self._connection()
        begun = time.perf_counter()
        connection.request("GET", path, headers={**self._headers, "Prefer": "wait"})
        connection.getresponse().read()
        connection.close()
        return time.perf_counter() - begun

    def watch(self, path: str, until: threading.Event) -> None:
        """Listen to a stream of events until it is enough."""
        connection = self._connection()
        connection.request("GET", path, headers=self._headers)
        response = connection.getresponse()
        while response.readline() and not until.is_set():
            pass
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(self._place.hostname), self._place.port, timeout=120)


@contextmanager
def viewing(folder: Path) -> Iterator[Viewer]:
    command = [sys.executable, "-m", "seatrial", "view", str(folder), "--no-open", "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Viewer(process)
        finally:
            process.terminate()


def show(what: str, measured: float, goal: float | None, unit: str) -> None:
    verdict = "" if goal is None else f"goal ≤ {goal:g} {unit}   {'reached' if measured <= goal else 'MISSED'}"
    print(f"{what:52} {measured:9.3f} {unit:3} {verdict}", flush=True)


def measure_start(folder: Path) -> None:
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        with viewing(folder) as viewer:
            viewer.get("/static/view.css")
            times.append(time.perf_counter() - begun)
    show("start to the first byte", min(times), 0.5, "s")


def measure_pages(folder: Path, goal_sec: float, goal_kb: float | None) -> None:
    with viewing(folder) as viewer:
        name = folder.name
        begun = time.perf_counter()
        show(f"{name}: first answer after a start", viewer.get(f"/jobs/{name}/")[0], 1.0, "s")
        viewer.get_whole(f"/jobs/{name}/")
        show(f"{name}: job page, the first one", time.perf_counter() - begun, None, "s")
        asked = {
            "job page": "",
            "job page, by words": "?find=fail",
            "job page, by an expression": "?where=reward%3C0.5&sort=-time",
            "its last page": "?sort=trial&page=100000",
        }
        for what, query in asked.items():
            found = [viewer.get(f"/jobs/{name}/{query}") for _ in range(RUNS)]
            show(f"{name}: {what}", min(took for took, _ in found), goal_sec, "s")
        show(f"{name}: bytes of the job page", viewer.get(f"/jobs/{name}/")[1] / 1000, goal_kb, "kB")
        show(f"{name}: list of jobs", min(viewer.get("/")[0] for _ in range(RUNS)), None, "s")


def cpu_of_run(folder: Path, trials: int) -> float:
    """What a run of so many empty trials uses of a processor, in seconds, its start included."""
    program = [sys.executable, "-c", STORING, str(folder), str(trials)]
    with Path(os.devnull).open("wb") as nothing:
        actions = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1)]
        child = os.posix_spawn(sys.executable, program, os.environ, file_actions=actions)
        _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return used.ru_utime + used.ru_stime


def measure_watching(scratch: Path, trials: int) -> None:
    """A run beside a viewer, in turn with and without pages that watch it: all else is the same."""
    alone, watched = [], []
    for number in range(3):
        alone.append(_run_beside_viewer(scratch / f"alone-{number}", trials, pages=0))
        watched.append(_run_beside_viewer(scratch / f"watched-{number}", trials, pages=2))
    show(f"a run of {trials:,} trials, unwatched", min(alone), None, "s")
    show("the same, watched by two pages", min(watched), None, "s")
    show("what watching costs the runner", 100 * (min(watched) / min(alone) - 1), 3.0, "%")


def _run_beside_viewer(folder: Path, trials: int, pages: int) -> float:
    enough = threading.Event()
    make_finished(folder / "other", 1, 1)
    with viewing(folder) as viewer:
        viewer.get("/")

        def listen() -> None:
            while not (folder / "job" / "job.json").exists():
                time.sleep(0.1)
            viewer.watch("/api/jobs/job/events", enough)

        listeners = [threading.Thread(target=listen, daemon=True) for _ in range(pages)]
        for each in listeners:
            each.start()
        used = cpu_of_run(folder / "job", trials)
        enough.set()
    for each in listeners:
        each.join()
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the jobs here, or use those that are there")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        scratch = keep or Path(name)
        middling, large = scratch / "middling", scratch / "large"
        if not middling.exists():
            make_finished(middling, 3_566, 1)
        if not large.exists():
            print("making a job of 100,000 trials …", flush=True)
            report.make_large(large)
        measure_start(middling)
        measure_pages(middling, 0.15, 300)
        measure_pages(large, 1.0, None)
        measure_watching(Path(name), 5_000)


if __name__ == "__main__":
    main()
