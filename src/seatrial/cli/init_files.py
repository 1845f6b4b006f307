"""The files of a new task: a small one that works, with every part that a task of one's own needs."""

import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path

from seatrial import verifier_kit

_READINGS = (20.4, 21.1, 19.8, 22.6, 20.9, 21.7)

_TASK = """\
schema_version = "1.3"

[task]
name = "my-org/{name}"
description = "Mean and maximum of the readings of a sensor"
keywords = ["example"]

[metadata]
category = "data"
difficulty = "easy"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 60.0

[environment]
docker_image = "python:3.11-slim"
workdir = "/workspace"
cpus = 1
memory_mb = 512
network_mode = "no-network"

[output]
path = "/workspace/result.json"
required_keys = ["mean", "maximum"]
"""

_INSTRUCTION = """\
# Readings of a sensor

`/workspace/readings.csv` has one reading per line, in degrees Celsius, below a line with the name of the column.

Work out the mean and the maximum of all readings and write them to `/workspace/result.json`, rounded to no fewer than
two decimals:

```json
{
  "mean": 0.0,
  "maximum": 0.0
}
```
"""

_TEST = """\
#!/bin/sh
exec python3 "$(dirname "$0")/verify.py"
"""

_VERIFY = """\
import verifier_kit as kit

# The verifier has its own numbers: what lies in the sandbox, the agent may have changed.
READINGS = {readings}


def judge():
    answer = kit.read_json("/workspace/result.json")
    kit.require_keys(answer, ["mean", "maximum"])
    return [
        kit.compare("mean", answer["mean"], sum(READINGS) / len(READINGS), abs=0.01, weight=2),
        kit.compare("maximum", answer["maximum"], max(READINGS), abs=0.01),
    ]


kit.run(judge)
"""

_SOLVE_SH = """\
#!/bin/sh
set -eu
exec python3 "$(dirname "$0")/solve.py"
"""

_SOLVE = """\
import json

with open("/workspace/readings.csv") as file:
    readings = [float(line) for line in file.read().split()[1:]]
answer = {"mean": round(sum(readings) / len(readings), 3), "maximum": max(readings)}
with open("/workspace/result.json", "w") as file:
    json.dump(answer, file)
"""

_README = """\
# {name}

| File | What it is for |
|---|---|
| `instruction.md` | all that the agent is told |
| `task.toml` | limits, image, network, and where the answer is expected |
| `environment/` | files that the agent finds in its working directory |
| `tests/` | the verifier; it reaches the sandbox after the agent, who never sees it |
| `solution/` | the reference solution, for the agent `oracle` only |
| `golden/` | answers that must pass and must fail, to try the verifier on without a sandbox |

    seatrial lint .
    seatrial run -p . -a oracle -a noop
    mkdir -p /tmp/desk && cp -r golden/pass/. /tmp/desk && KIT_ROOT=/tmp/desk sh tests/test.sh
    cat /tmp/desk/logs/verifier/reward.json
"""


def new_task_files(name: str) -> Mapping[str, bytes]:
    """Every file of a new task by its path; the name may be any text."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "task"
    texts = {
        "README.md": _README.format(name=plain),
        "task.toml": _TASK.format(name=plain),
        "instruction.md": _INSTRUCTION,
        "environment/readings.csv": "\n".join(["celsius", *map(str, _READINGS)]) + "\n",
        "tests/test.sh": _TEST,
        "tests/verify.py": _VERIFY.format(readings=list(_READINGS)),
        "solution/solve.sh": _SOLVE_SH,
        "solution/solve.py": _SOLVE,
        "golden/pass/workspace/result.json": _answer(statistics.mean(_READINGS)),
        "golden/fail/workspace/result.json": _answer(statistics.median(_READINGS)),
    }
    kit = {"tests/verifier_kit.py": Path(verifier_kit.__file__).read_bytes()}
    return {path: text.encode() for path, text in texts.items()} | kit


def _answer(mean: float) -> str:
    return json.dumps({"mean": round(mean, 3), "maximum": max(_READINGS)}) + "\n"
