"""The demo: every example task, done by the agent that knows the answer and by the one that does nothing."""

import shutil
import sys
from pathlib import Path

from seatrial.cli.main import run

TASKS = Path(__file__).parent / "tasks"


def main() -> int:
    """Run the job, then look into one of its trials."""
    job = "jobs/demo"
    shutil.rmtree(job, ignore_errors=True)
    # This machine's own system instead of the image that the tasks name: nothing has to be fetched. And an ordinary
    # user cannot limit processors and memory everywhere. Records say both.
    how = ["--image", "host", "--allow-partial-limits"]
    code = run(["run", "-p", str(TASKS), "-a", "oracle", "-a", "noop", "-o", job, *how])
    if code == 0:
        print(f"\nOne of its trials, by `seatrial show {job} unit-service.oracle`:\n", flush=True)
        code = run(["show", job, "unit-service.oracle"])
    return code


if __name__ == "__main__":
    sys.exit(main())
