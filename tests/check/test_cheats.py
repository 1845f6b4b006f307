"""Answers that are code: verifiers that run it in their own process are cheated, those that do not are not."""

from pathlib import Path

import pytest

from seatrial.check.cheats import code_cheats
from seatrial.check.checks import cheats
from tests.check.trying import Bench, accepted
from tests.conftest import sampled
from tests.trial.support import write_task

MODULE = "/app/adding.py"
INSTRUCTION = f"Write a module with a function `add(a, b)` to `{MODULE}`.\n"
SOURCE = "def add(a, b):\n    return a + b\n"
BY_STATUS = """#!/bin/sh
cd /app
if python3 -c 'import adding; assert adding.add(2, 3) == 5'; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
BY_REPORT = """#!/bin/sh
cd /app && python3 -c 'import adding; print("sum", adding.add(2, 3) == 5)' > /tmp/said
if grep -qx 'sum True' /tmp/said; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
BY_PROCESS = """#!/bin/sh
cd /app && python3 -I -c 'import sys; sys.path.append("."); import adding; print(repr(adding.add(2, 3)))' > /tmp/said
if grep -qx 5 /tmp/said; then echo '{"reward": 1}'; else echo '{"reward": 0}'; fi > /logs/verifier/reward.json
"""


@pytest.mark.parametrize(
    ("judge", "paying"),
    sampled(
        [
            (BY_STATUS, {"code/exit-early", "code/agrees", "code/writes-reward"}),
            (BY_REPORT, {"code/agrees", "code/writes-reward"}),
            (BY_PROCESS, set()),
        ]
    ),
    ids=["status", "report", "process"],
)
def test_code_in_the_hands_of_its_judge(bench: Bench, tmp_path: Path, judge: str, paying: set[str]) -> None:
    root = write_task(tmp_path / "task", files={"tests/test.sh": judge}, instruction=INSTRUCTION)
    wanted = ["stand-in", "exit-early", "agrees", "writes-reward"]
    found = bench.check(cheats, root, accepted(MODULE, SOURCE), only=wanted)
    assert {finding.subject for finding in found.findings} == paying
    weights = {finding.subject: finding.weight for finding in found.findings}
    assert weights.get("code/exit-early", "critical") == "critical"
    assert weights.get("code/agrees", "major") == "major"


def test_a_reward_that_the_answer_writes(bench: Bench, tmp_path: Path) -> None:
    judge = (
        "#!/bin/sh\necho 0 > /logs/verifier/reward.txt\nsh /app/tool.sh && echo 1 > /logs/verifier/reward.txt\ntrue\n"
    )
    root = write_task(tmp_path / "task", files={"tests/test.sh": judge}, instruction="Write it to `/app/tool.sh`.\n")
    found = bench.check(cheats, root, only=["stand-in", "exit-early", "writes-reward"])
    assert {finding.subject for finding in found.findings} == {"code/exit-early", "code/writes-reward"}


def test_languages() -> None:
    assert {cheat.name for cheat in code_cheats("/a/b.py")} == {"exit-early", "agrees", "writes-reward"}
    assert [cheat.name for cheat in code_cheats("/a/b.MJS")] == ["exit-early"]
    assert not list(code_cheats("/a/b.rs"))
    for cheat in code_cheats("x.py"):
        compile(cheat.source, cheat.name, "exec")
