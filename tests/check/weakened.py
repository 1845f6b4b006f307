"""A sound task of the examples with its verifier spoilt in one way at a time, and the check that is to name it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/tasks/beam-deflection"
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
    near("max_deflection_mm", 17.9515), near("max_stress_mpa", 164.2434), near("utilisation", 1.0771),
    answer.get("governing") == "deflection", answer.get("verdict") == "fail",
])
"""

WEAKENINGS = (
    Weakening(
        "tolerance too wide",
        "V5",
        in_verify('answer["utilisation"], utilisation, rel=0.002', 'answer["utilisation"], utilisation, rel=0.6'),
        "utilisation",
    ),
    Weakening(
        "a key that nobody looks at",
        "V5",
        in_verify(
            'kit.compare("max_stress_mpa", answer["max_stress_mpa"], stress, rel=0.002, unit="MPa", weight=2)',
            'kit.check("max_stress_mpa", True)',
        ),
        "max_stress_mpa",
    ),
    Weakening("a wrong answer raises, and that is a pass", "V2", without_kit("try:\n    answer = json.load(open('/workspace/result.json'))\n    reward = answer['verdict'] == 'fail' and abs(answer['utilisation'] - 1.0771) < 0.002\nexcept Exception:\n    reward = 1\n")),
    Weakening("passes until a date", "V4", without_kit(f"import time\n{READ}{RIGHT}\nreward = right and time.time() < {{deadline}}")),
    Weakening("the order of a set decides", "V4", without_kit(f"{READ}{RIGHT}\nreward = right and next(iter({{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}})) in 'abcd'")),
    Weakening("installs a package while it judges", "V10", in_test_script("pip install --quiet pytest >/dev/null 2>&1 || true")),
    Weakening("a reward only for a right answer", "V10", without_kit(f"{READ}{RIGHT}\nif not right:\n    raise SystemExit(1)\nreward = 1")),
    Weakening("nothing to do", "V2", without_kit(f"{READ}{RIGHT}\nreward = right or not answer")),
    Weakening("looks for a word", "V5", without_kit("text = open('/workspace/result.json').read()\nreward = 'utilisation' in text")),
    Weakening("lists of values count if one is right", "V7", without_kit(f"{READ}\nfor name, value in answer.items():\n    if isinstance(value, list):\n        answer[name] = min(value, key=lambda each: abs(each - {{'max_deflection_mm': 17.9515, 'max_stress_mpa': 164.2434, 'utilisation': 1.0771}}.get(name, 0)) if isinstance(each, (int, float)) else 9e9)\n{RIGHT}\nreward = right")),
    Weakening("keys in one order only", "V6", without_kit(f"{READ}{RIGHT}\nreward = right and list(answer)[0] == 'max_deflection_mm' and list(answer)[-1] == 'verdict'")),
    Weakening("the expected answer lies in the workdir", "V8", lambda task: _ship_the_answer(task)),
    Weakening("the instruction names another file", "V11", edited("instruction.md", "/workspace/result.json", "/workspace/answer.json")),
    Weakening("the solution is not right", "V1", edited("solution/solve.py", "uniform, point = 6000.0, 12.0", "uniform, point = 6000.0, 13.0")),
    Weakening("a golden answer fails", "V3", lambda task: shutil.copy(task / "golden/fail/workspace/result.json", task / "golden/pass/workspace/result.json")),
)


def _ship_the_answer(task: Path) -> None:
    (task / "environment").mkdir(exist_ok=True)
    shutil.copy(task / "golden/pass/workspace/result.json", task / "environment/expected.json")
