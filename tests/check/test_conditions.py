"""Each condition is other for a real verifier in exactly what it is named for."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.check.cases import Case
from seatrial.check.conditions import ALL_TOGETHER, CONTROL, NETWORK, ONE_BY_ONE
from tests.check.real_cases import judge_cases
from tests.trial.support import Desk, open_desk, write_task

# What a verifier sees of its surroundings; /tests is listed as tests list it.
LOOK = """#!/bin/sh
cd /tests && python3 - "$(echo *)" > /logs/verifier/details.json <<'END'
import datetime, json, os, sys, time
print(json.dumps({"seen": {
    "year": datetime.date.today().year - int(os.popen("date +%Y").read()) > 0, "shown": sys.argv[1],
    "listed": os.listdir("/tests/data"), "zone": os.environ.get("TZ"), "lang": os.environ.get("LANG"),
    "hash": os.environ.get("PYTHONHASHSEED"), "cpus": len(os.sched_getaffinity(0)) == 1,
    "python_path": [path for path in sys.path if ".python" in path],
    "own": os.environ.get("PYTHONPATH", "").endswith("/own"),
}}))
END
echo 1 > /logs/verifier/reward.txt
"""
TOML = '[verifier.env]\nPYTHONPATH = "/own"\n'
FILES = {"tests/test.sh": LOOK, "tests/data/b": "", "tests/data/a": "", "tests/data/c": ""}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("desk")) as opened:
        yield opened


def seen(desk: Desk, root: Path) -> dict[str, dict[str, Any]]:
    cases = [Case("usual", "V4")]
    cases += [Case(each.name, "V4", conditions=each.conditions) for each in (*ONE_BY_ONE, CONTROL, ALL_TOGETHER)]
    told = {}
    for name, verdict in judge_cases(desk, root, cases, {}).items():
        assert verdict.evaluation is not None
        assert verdict.reward == 1.0, (name, verdict)
        told[name] = (verdict.evaluation.breakdown or {})["seen"]
    return told


def differing(told: dict[str, dict[str, Any]], name: str) -> set[str]:
    return {key for key, value in told[name].items() if value != told["usual"][key]}


def test_each_condition_is_other_in_what_it_is_named_for(desk, tmp_path):
    told = seen(desk, write_task(tmp_path / "task", toml=TOML, files=FILES))
    usual = told["usual"]
    assert usual == {**usual, "year": False, "zone": None, "lang": None, "hash": None, "python_path": [], "own": True}
    assert [told[f"hash-seed-{seed}"]["hash"] for seed in (1, 2)] == ["1", "2"]
    assert differing(told, "hash-seed-1") == {"hash"}
    assert differing(told, "date") == {"year"}
    assert differing(told, "time-zone") == {"zone"}
    assert differing(told, "locale") == {"lang"}
    assert told["directory-order-sorted"]["listed"] == ["a", "b", "c"]
    assert told["directory-order-reversed"]["listed"] == ["c", "b", "a"]
    assert differing(told, "directory-order-sorted") | differing(told, "directory-order-reversed") == {"listed"}
    assert differing(told, CONTROL.name) == differing(told, NETWORK.name) == set()
    if shutil.which("taskset"):
        assert told["one-cpu"]["cpus"]
    assert {"year", "zone", "lang", "hash"} <= differing(told, ALL_TOGETHER.name)


def test_what_the_task_sets_stays(desk, tmp_path):
    shared = '[environment]\nnetwork_mode = "no-network"\n[environment.env]\nLANG = "C"\n'
    toml = f'{shared}[verifier.env]\nTZ = "UTC"\nPYTHONHASHSEED = "0"\n'
    root = write_task(tmp_path / "task", toml=toml, files=FILES)
    case = Case("all", "V4", conditions=ALL_TOGETHER.conditions)
    (verdict,) = judge_cases(desk, root, [case], {}).values()
    assert verdict.evaluation is not None
    told = json.loads(json.dumps(verdict.evaluation.breakdown))["seen"]
    assert (told["zone"], told["lang"], told["hash"], told["year"]) == ("UTC", "C", "0", True)


def test_without_taskset_the_verifier_runs_as_ever(desk, tmp_path):
    files = {**FILES, "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}
    root = write_task(tmp_path / "task", toml='[verifier.env]\nPATH = "/nowhere"\n', files=files)
    one_cpu = next(each for each in ONE_BY_ONE if each.code == "one-cpu")
    (verdict,) = judge_cases(desk, root, [Case("x", "V4", conditions=one_cpu.conditions)], {}).values()
    assert verdict.reward == 1.0
