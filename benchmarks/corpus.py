"""Makes a folder of realistic tasks to measure on: the sizes and files of a common public benchmark."""

from pathlib import Path

TASK_COUNT = 3566

_TOML = """\
version = "1.0"

[metadata]
author_name = "A. Author"
author_email = "author@example.org"
difficulty = "medium"
category = "software-engineering"
tags = ["python", "data", "files"]
expert_time_estimate_min = 60.0
junior_time_estimate_min = 120.0

[verifier]
timeout_sec = 120.0

[verifier.env]

[agent]
timeout_sec = 600.0

[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 2048
storage_mb = 10240
gpus = 0
allow_internet = true
mcp_servers = []

[environment.env]

[solution.env]
"""

_INSTRUCTION = """\
A service writes its measurements to /app/data/measurements.csv. The file has a header and one row per measurement.
Some rows repeat, some lack a value, and the clock of one sensor is an hour late.

Read `/app/data/measurements.csv`, drop the rows that repeat or lack a value, correct the late clock, and compute the
mean, the median and the largest value per sensor. Sensors are named in /app/data/sensors.json.

Write the result to `/app/output/summary.json` as one object per sensor, like this:

```json
{"sensor": "a1", "mean": 0.0, "median": 0.0, "max": 0.0}
```

You may use the tool /app/bin/inspect to look at a file. The tests run `python /app/check.py --strict` as a last step.
"""

_FILES = {
    "task.toml": _TOML,
    "instruction.md": _INSTRUCTION,
    "environment/Dockerfile": "FROM ubuntu:24.04\nRUN apt-get update\nWORKDIR /app\nCOPY data /app/data\n",
    "environment/docker-compose.yaml": "services:\n  main:\n    image: ${MAIN_IMAGE_NAME}\n",
    "solution/solve.sh": "#!/bin/bash\npython3 - <<'PY'\nprint('solved')\nPY\n",
    "tests/test.sh": "#!/bin/bash\npytest /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n",
    "tests/test_outputs.py": "def test_output():\n    assert open('/app/output/summary.json').read()\n",
}


def make_corpus(root: Path, count: int = TASK_COUNT) -> None:
    """Write `count` tasks below `root`."""
    for number in range(count):
        for name, text in _FILES.items():
            path = root / f"group-{number % 20:02}" / f"task-{number:05}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
