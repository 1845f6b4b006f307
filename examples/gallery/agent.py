"""A make-believe agent: it looks its task up among the examples and hands in a good answer, a bad one, or none.

How often is given by two chances, and how long it takes, more or less, by a number of seconds:
`agent.py 0.9 0.08 1.5`.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path("/examples")


def main() -> None:
    """Hand something in, or nothing."""
    good, bad, seconds = map(float, sys.argv[1:])
    asked = Path(os.environ["HARBOR_INSTRUCTION_PATH"]).read_text().strip()
    task = next(each.parent for each in EXAMPLES.rglob("instruction.md") if each.read_text().strip() in asked)
    chance = random.Random()  # noqa: S311 - nothing is to be kept secret
    time.sleep(seconds * chance.lognormvariate(0, 0.4))
    drawn = chance.random()
    if drawn < good + bad:
        answer = task / "golden" / ("pass" if drawn < good else "fail")
        shutil.copytree(answer / "workspace", ".", dirs_exist_ok=True)
        if (start := answer / "start.sh").exists():
            subprocess.run(["sh", start], check=False)  # noqa: S603, S607 - as a user would


if __name__ == "__main__":
    main()
