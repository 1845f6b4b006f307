"""A sound task of the examples with its verifier spoilt in one way at a time, and the check that is to name it."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

EXAMPLE = REPOSITORY / "examples/tasks/beam-deflection"
Spoil = Callable[[Path], None]


@dataclass(frozen=True)
class Weakening:
    """One way to spoil a verifier; its finding is of the `check`, and speaks of the `subject`."""

    name: str
    check: str
    spoil: Spoil
    subject: str = ""


def edited(path: str, old: str, new: str) -> Spoil:
    def spoil(task: Path) -> None:
        text = (task / path).read_text()
        assert old in text, f"{path} has no {old!r}"
        (task / path).write_text(text.replace(old, new))

    return spoil


def in_verify(old: str, new: str) -> Spoil:
    return edited("tests/verify.py", old, new)


def in_test_script(before: str) -> Spoil:
    return edited("tests/test.sh", "exec python3", f"{before}\nexec python3")


def without_kit(script: str) -> Spoil:
    """A verifier of a few lines in its place; `answer` is what was found, and `reward` what it writes."""

    def spoil(task: Path) -> None:
        (task / "tests/verify.py").write_text(f"import json\n\n{script}\n{WRITE_REWARD}")

    return spoil


WRITE_REWARD = 'open("/logs/verifier/reward.json", "w").write(json.dumps({"reward": float(reward)}))\n'
READ = """
try:
    answer = json.load(open("/workspace/result.json"))
    assert isinstance(answer, dict)
except Exception:
    answer = {}
"""
RIGHT = """
def near(name, value):
    found = answer.get(name)
    return type(found) in (int, float) and abs(found - value) <= 0.002 * value

right = all([
    near("max_deflection_mm", 17.9512), near("max_stress_mpa", 164.2434), near("utilisation", 1.0771),
    answer.get("governing") == "deflection", answer.get("verdict") == "fail",
])
"""

PASSES_ON_ERROR = """
try:
    answer = json.load(open("/workspace/result.json"))
    reward = answer["verdict"] == "fail" and abs(answer["utilisation"] - 1.0771) < 0.002
except Exception:
    reward = 1
"""
BEST_OF_LISTS = """
expected = {"max_deflection_mm": 17.9512, "max_stress_mpa": 164.2434, "utilisation": 1.0771}
for name, value in expected.items():
    if isinstance(answer.get(name), list):
        answer[name] = next((each for each in answer[name] if type(each) is float and abs(each - value) < 0.01), 0)
"""
IN_ORDER = "right and list(answer)[0] == 'max_deflection_mm' and list(answer)[-1] == 'verdict'"
DEADLINE = int(time.time()) + 30 * 24 * 3600


def _verify(reward: str, before: str = "") -> Spoil:
    return without_kit(f"{READ}{before}{RIGHT}reward = {reward}\n")


def _ship_the_answer(task: Path) -> None:
    (task / "environment").mkdir(exist_ok=True)
    shutil.copy(task / "golden/pass/workspace/result.json", task / "environment/expected.json")


def _swap_golden(task: Path) -> None:
    shutil.copy(task / "golden/fail/workspace/result.json", task / "golden/pass/workspace/result.json")


WEAKENINGS = (
    Weakening("tolerance too wide", "V5", in_verify("utilisation, rel=0.002", "utilisation, rel=0.6"), "utilisation"),
    Weakening(
        "a key that nobody checks",
        "V5",
        in_verify('answer["max_stress_mpa"], stress', "stress, stress"),
        "max_stress_mpa",
    ),
    Weakening("looks for a word", "V5", without_kit("reward = 'utilisation' in open('/workspace/result.json').read()")),
    Weakening("what raises is a pass", "V2", without_kit(PASSES_ON_ERROR)),
    Weakening("no answer is a pass", "V2", _verify("right or not answer")),
    Weakening("passes until a date", "V4", _verify(f"right and __import__('time').time() < {DEADLINE}")),
    Weakening("the order of a set decides", "V4", _verify("right and next(iter({*'abcdefgh'})) in 'abcd'")),
    Weakening("installs while it judges", "V10", in_test_script("pip install --quiet pytest >/dev/null 2>&1 || true")),
    Weakening(
        "a reward only for right answers",
        "V10",
        without_kit(f"{READ}{RIGHT}if not right:\n    raise SystemExit(1)\nreward = 1"),
    ),
    Weakening("one right value of a list will do", "V7", _verify("right", BEST_OF_LISTS)),
    Weakening("keys in one order only", "V6", _verify(IN_ORDER)),
    Weakening("the expected answer lies in the workdir", "V8", _ship_the_answer),
    Weakening(
        "the instruction names another file",
        "V11",
        edited("instruction.md", "/workspace/result.json", "/workspace/answer.json"),
    ),
    Weakening("the solution is not right", "V1", edited("solution/solve.py", "12.0, 25000.0", "13.0, 25000.0")),
    Weakening("a golden answer fails", "V3", _swap_golden),
)
