"""Trajectories as files: `trajectory.json` beside what the agent printed, with its images in a folder."""

from collections.abc import Sequence
from pathlib import Path

from seatrial.gateway.calls import CALLS_FILE, read_calls
from seatrial.gateway.dialects.fields import dump
from seatrial.model.atif import atif_json
from seatrial.model.record import AgentRef
from seatrial.trajectories.atif import TrajectoryFiles, make_trajectory
from seatrial.trajectories.threads import Thread, find_threads

TRAJECTORY_FILE = "trajectory.json"
MOST_BYTES = 64 * 2**20
"""Of calls from which a trajectory is made when a trial ends; from more, only when somebody asks for it."""

MOST_MESSAGES = 250_000
"""Of all threads together. Threads that begin alike each tell their beginning, which the calls have once."""


def read_threads(folder: Path) -> list[Thread]:
    """The threads of a trial, or of one of its steps; none without calls. Raises OSError, or ValueError."""
    path = folder / CALLS_FILE
    return find_threads(read_calls(path)) if path.is_file() else []


def keep_trajectory(folder: Path, agent: AgentRef, session: str) -> str | None:
    """Write the trajectory of the calls in `folder` below `agent/` there. Returns why there is none, if that is odd.

    Raises OSError, or ValueError for calls that cannot be read.
    """
    calls = folder / CALLS_FILE
    size = calls.stat().st_size if calls.is_file() else 0
    if size > MOST_BYTES:
        return f"{CALLS_FILE} has {size:,} bytes; `seatrial export` makes a trajectory of it"
    threads = read_threads(folder) if size else []
    if _is_too_much(threads):
        return f"its {len(threads):,} threads repeat too much; `seatrial export` makes a trajectory of it"
    if threads:
        write_trajectory(make_trajectory(threads, agent, session), folder / "agent" / TRAJECTORY_FILE)
    return None


def _is_too_much(threads: Sequence[Thread]) -> bool:
    count = size = 0
    for message in (message for thread in threads for each in thread.calls for message in each.new):
        count, size = count + 1, size + len(dump(message))
        if count > MOST_MESSAGES or size > 2 * MOST_BYTES:
            return True
    return False


def write_trajectory(made: TrajectoryFiles, path: Path) -> Sequence[Path]:
    """Write a trajectory and its images beside it; images are named by what is in them. Returns what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = {path.parent / name: content for name, content in made.images.items()}
    for image, content in images.items():
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(content)
    path.write_bytes(atif_json(made.trajectory))
    return [*images, path]
