"""The verifier kit on verdicts: rolling dimensions up, writing the files, and running a judge."""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from seatrial import verifier_kit as kit
from seatrial.verifier_kit import Dimension

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import verifier_kit as kit

def judge():
    {body}

kit.run(judge)
"""


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kit writes; the folder does not exist yet."""
    monkeypatch.setenv("KIT_ROOT", str(tmp_path))
    return tmp_path / "logs" / "verifier"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def run_script(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """A verifier of its own, as test.sh would start it."""
    script = SCRIPT.format(folder=str(Path(kit.__file__).parent), body=body)
    environment = {"KIT_ROOT": str(tmp_path)}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


MIXED = (Dimension("a", 8, 10, weight=3), Dimension("b", 0.2), Dimension("unused", 0, weight=0))
PERFECT = (Dimension("a", 10, 10, weight=3), Dimension("b", 7, 5))
ZERO = (Dimension("a", 1), Dimension("b", -3))


@pytest.mark.parametrize(
    ("strategy", "mixed", "perfect", "zero"),
    [
        ("weighted_mean", 0.65, 1.0, 0.5),
        ("min", 0.2, 1.0, 0.0),
        ("all_pass", 0.0, 1.0, 0.0),
        ("any_pass", 0.0, 1.0, 1.0),
        ("threshold", 1.0, 1.0, 1.0),
        ("geometric_mean", 0.5657, 1.0, 0.0),
    ],
)
def test_each_strategy_rolls_up_in_its_way(strategy: str, mixed: float, perfect: float, zero: float):
    assert [kit.roll_up(dimensions, strategy) for dimensions in (MIXED, PERFECT, ZERO)] == [mixed, perfect, zero]


def test_nearly_right_is_not_a_pass():
    nearly = [Dimension("a", 0.9999), Dimension("b", 0.9999)]
    assert [kit.roll_up(nearly, strategy) for strategy in ("all_pass", "any_pass")] == [0.0, 0.0]


def test_there_are_six_strategies():
    assert kit.STRATEGIES == ("weighted_mean", "min", "all_pass", "any_pass", "threshold", "geometric_mean")
    assert kit.roll_up(MIXED) == kit.roll_up(MIXED, "weighted_mean")


@pytest.mark.parametrize(
    ("right", "total", "threshold"), [(4, 5, 0.8), (7, 10, 0.7), (1, 10, 0.1), (9, 10, 0.9), (1, 2, 0.5)]
)
def test_a_mean_exactly_at_the_threshold_reaches_it(right: int, total: int, threshold: float):
    """4 of 5 is 0.8, whichever way the float 0.8 happens to be off."""
    cases = [kit.share("cases", ["wrong"] * (total - right), total)]
    assert kit.roll_up(cases, "threshold", threshold=threshold) == 1.0
    assert kit.roll_up(cases, "threshold", threshold=threshold + 0.01) == 0.0


def test_a_reward_is_rounded_to_4_decimals():
    thirds = [Dimension("a", 1), Dimension("b", 1), Dimension("c", 0)]
    assert kit.roll_up(thirds) == 0.6667


def test_a_tiny_share_does_not_break_the_geometric_mean():
    assert kit.roll_up([Dimension("a", 1e-200, 1e200), Dimension("b", 1)], "geometric_mean") == 0.0


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("unknown_strategy", lambda: kit.roll_up(MIXED, "mean")),
        ("duplicate_dimension", lambda: kit.roll_up([Dimension("a", 1), Dimension("a", 1)])),
        ("unknown_dimension", lambda: kit.roll_up([Dimension("a", 1), Dimension("b", 1)], names=["a"])),
        ("missing_dimension", lambda: kit.roll_up([Dimension("a", 1)], names=iter(["a", "b"]))),
        ("no_dimensions", lambda: kit.roll_up([])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", math.nan)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", True)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", "1")])),  # type: ignore[arg-type]
        ("not_finite", lambda: kit.roll_up([Dimension("a", 10**400)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", 1, math.inf)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", 1, weight=math.inf)])),
        ("not_finite", lambda: kit.roll_up(MIXED, "threshold", threshold=math.nan)),
        ("bad_max_score", lambda: kit.roll_up([Dimension("a", 1, 0)])),
        ("bad_max_score", lambda: kit.roll_up([Dimension("a", 1, -1)])),
        ("bad_weight", lambda: kit.roll_up([Dimension("a", 1, weight=-1)])),
        ("bad_weight", lambda: kit.roll_up([Dimension("a", 1, weight=0)])),
        ("bad_reward", lambda: kit.write_verdict(1.01)),
        ("bad_reward", lambda: kit.write_verdict(-1e-9)),
        ("not_finite", lambda: kit.write_verdict(math.nan)),
        ("not_finite", lambda: kit.write_verdict(True)),
        ("not_finite", lambda: kit.write_verdict("1")),  # type: ignore[arg-type]
    ],
)
def test_a_verifiers_mistake_has_a_stable_code(logs: Path, code: str, call: Callable[[], object]):
    with pytest.raises(kit.KitError) as caught:
        call()
    assert caught.value.code == code
    assert not logs.exists()


def test_a_complaint_names_the_dimension():
    with pytest.raises(kit.KitError, match=r"'b', 'c': unknown, expected a"):
        kit.roll_up([Dimension(name, 1) for name in "cab"], names=["a"])


def test_details_leave_out_what_nobody_set():
    details = kit.details_of([Dimension("a", 0.5), Dimension("b", 1, 2, 3, "seen", 0, "7")])
    assert details == {
        "a": {"score": 0.5, "max_score": 1.0, "weight": 1.0, "evidence": ""},
        "b": {"score": 1, "max_score": 2, "weight": 3, "evidence": "seen", "expected": 0, "actual": "7"},
    }


def test_a_verdict_is_two_files_and_nothing_else(logs: Path):
    kit.write_verdict(0.93, {"a": {"score": 0.93, "evidence": "within 2 % of 1 Ω"}})
    assert sorted(path.name for path in logs.iterdir()) == ["details.json", "reward.json"]
    assert read(logs / "reward.json") == {"reward": 0.93}
    assert read(logs / "details.json") == {"a": {"score": 0.93, "evidence": "within 2 % of 1 Ω"}}


def test_a_verdict_needs_no_details(logs: Path):
    kit.write_verdict(1)
    assert [path.name for path in logs.iterdir()] == ["reward.json"]


def test_a_verdict_replaces_an_earlier_one_as_a_whole(logs: Path):
    kit.write_verdict(0.25)
    with (logs / "reward.json").open(encoding="utf-8") as earlier:
        kit.write_verdict(1.0)
        assert json.load(earlier) == {"reward": 0.25}
    assert read(logs / "reward.json") == {"reward": 1.0}


def test_there_is_no_reward_unless_the_details_were_written(logs: Path):
    (logs / "details.json").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        kit.write_verdict(1.0, {})
    assert not (logs / "reward.json").exists()


@pytest.mark.parametrize("value", [math.nan, {1, 2}, object()], ids=["nan", "set", "object"])
def test_details_that_are_not_json_leave_nothing_behind(logs: Path, value: Any):
    with pytest.raises((ValueError, TypeError)):
        kit.write_verdict(1.0, {"a": value})
    assert list(logs.iterdir()) == []


def test_half_a_character_pair_in_the_evidence_breaks_nothing(logs: Path):
    kit.write_verdict(0.5, {"a": {"evidence": "found \ud83d"}})
    assert read(logs / "details.json") == {"a": {"evidence": "found ?"}}
    assert read(logs / "reward.json") == {"reward": 0.5}


def test_run_writes_what_the_judge_found(logs: Path):
    kit.run(lambda: MIXED, "threshold", threshold=0.6)
    assert read(logs / "reward.json") == {"reward": 1.0}
    assert read(logs / "details.json") == kit.details_of(MIXED)


def test_run_takes_a_judge_that_yields(logs: Path):
    def judge():
        yield kit.check("first", True)
        raise kit.OutputProblem("unit_mismatch", "in volts, please")

    kit.run(judge)
    assert read(logs / "reward.json") == {"reward": 0.0}
    assert read(logs / "details.json") == {
        "error_taxonomy": [{"category": "unit_mismatch", "description": "in volts, please"}]
    }


def test_a_missing_output_is_a_zero_with_its_reason(tmp_path: Path, logs: Path):
    done = run_script(tmp_path, "return [kit.check('a', kit.read_text('/workspace/a.txt') == 'a')]")
    assert (done.returncode, done.stderr) == (0, "")
    assert read(logs / "reward.json") == {"reward": 0.0}
    assert read(logs / "details.json")["error_taxonomy"][0]["category"] == "no_output"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("return None", "TypeError"),
        ("return []", "KitError"),
        ("return [kit.Dimension('a', float('nan'))]", "KitError"),
        ("return [kit.compare('a', '5 V', 5, unit='volt')]", "KitError"),
    ],
)
def test_a_crash_of_the_judge_is_no_verdict(tmp_path: Path, logs: Path, body: str, error: str):
    logs.mkdir(parents=True)
    for stale in ("reward.json", "reward.txt", "details.json"):
        (logs / stale).write_text("1", encoding="utf-8")
    done = run_script(tmp_path, body)
    assert done.returncode != 0
    assert error in done.stderr.splitlines()[-1]
    assert list(logs.iterdir()) == []


def test_an_earlier_verdict_does_not_survive_even_as_a_link(logs: Path):
    def judge() -> Sequence[Dimension]:
        raise RuntimeError("broken verifier")

    logs.mkdir(parents=True)
    (logs / "reward.json").symlink_to("/nowhere")
    (logs / "reward.txt").write_text("1.0", encoding="utf-8")
    with pytest.raises(RuntimeError, match="broken verifier"):
        kit.run(judge)
    assert list(logs.iterdir()) == []
