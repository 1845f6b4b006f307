"""The demo: runs the verifier of an example task on a right and on a wrong answer, and scores what it wrote."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from seatrial.cli.main import run

TASK = Path(__file__).parent / "tasks" / "voltage-drop"


def score(answer: str) -> None:
    """Judge one of the answers that come with the task."""
    print(f"\n{TASK.name}, the answer that should {answer}:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(TASK / "golden" / answer, root, dirs_exist_ok=True)
        environment = {**os.environ, "KIT_ROOT": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(["sh", str(TASK / "tests" / "test.sh")], env=environment, check=True)
        code = run(
            [
                "score",
                str(TASK),
                "--artifacts",
                str(root / "logs/verifier"),
                "--output",
                str(root / "workspace/report.md"),
            ]
        )
    if code:
        sys.exit(code)


if __name__ == "__main__":
    for kind in ("pass", "fail"):
        score(kind)
