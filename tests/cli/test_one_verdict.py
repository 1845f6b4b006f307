"""Two agents of a job are told apart everywhere or nowhere: by leaderboard, report, compare and the viewer's page.

Leaderboards and reports rank, so they correct for every two agents; compare corrects for what it compares. So a pair
that compare alone tells apart may be open where many are ranked, and never the other way round.
"""

import json
import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from seatrial.analysis.loaded import load_job
from seatrial.report.document import make_document
from seatrial.report.html.page import render_html
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import make_job, record
from tests.view.test_pages import fetched, plain

WORDS = {"better": 1, "worse": -1, "no difference seen": 0, "inconclusive": 0}
LOST = (0.21, 0.28, 0.38, 0.40, 0.45, 0.50, 0.55, 0.63)


def random_job(folder: Path, seed: int) -> list[str]:
    """A job of two to four agents on few tasks or more, with rewards of 0 and 1, of thirds, or of any size."""
    chance = random.Random(seed)
    agents, tasks = "abcd"[: chance.choice((2, 2, 3, 4))], chance.choice((4, 6, 8, 8, 12, 25, 40))
    attempts, kind = chance.choice((1, 1, 3)), chance.choice(("binary", "thirds", "any"))
    levels = {agent: chance.choice((0.1, 0.4, 0.5, 0.6, 0.9)) for agent in agents}

    def reward(agent: str) -> float:
        if kind == "any":
            return round(min(1.0, max(0.0, chance.gauss(levels[agent], 0.2))), 3)
        tests = 3 if kind == "thirds" else 1
        return sum(chance.random() < levels[agent] for _ in range(tests)) / tests

    trials = [(f"t{task}", agent, k) for task in range(tasks) for agent in agents for k in range(1, attempts + 1)]
    make_job(folder, *(record(task, reward(agent), agent, k) for task, agent, k in trials), attempts=attempts)
    return [*agents]


def sign_of(made: dict[str, Any]) -> int:
    """What compare found, where its word, its p-value and its interval are one."""
    paired = made["paired"]
    low, high = made["adjusted_interval"] or (paired["low"], paired["high"])
    p_value = paired["p_value"] if made["adjusted_p"] is None else made["adjusted_p"]
    told = WORDS[made["verdict"]]
    assert (1 if low > 0 else -1 if high < 0 else 0) == told
    assert (p_value <= 0.05) is bool(told)
    assert made["mcnemar_p"] is None or made["mcnemar_p"] == pytest.approx(paired["p_value"], abs=0.002)
    return told


def verdicts(seatrial: Seatrial, folder: Path, agents: list[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Each pair, with what each place makes of the second: 1 for better, -1 for worse, 0 for neither."""
    rows = json.loads(seatrial("leaderboard", folder, "--json").out)["rows"]
    behind = {row["agent"]: (row["rank"] or {"behind": ()})["behind"] for row in rows}
    document = make_document([load_job(folder)])
    shown = {
        frozenset((each.comparison.first.agent, each.comparison.second.agent)): each for each in document.comparisons
    }
    assert b"Where do agents differ?" in render_html(document)
    pairs = [*combinations(agents, 2)]
    pages = fetched(folder.parent, *(f"/compare?a={folder.name}&agent_a={a}&agent_b={b}" for a, b in pairs))
    for (first, second), (_, page) in zip(pairs, pages, strict=True):
        asked = ("compare", folder, "--agent", first, "--agent", second)
        gate = seatrial(*asked, "--gate", "--margin", "0")
        found = {
            "leaderboard": (first in behind[second]) * -1 + (second in behind[first]) * 1,
            "compare": sign_of(json.loads(seatrial(*asked, "--json").out)["comparisons"][0]),
            "viewer": 1 if "B is better by" in plain(page) else -1 if "B is worse by" in plain(page) else 0,
            "gate": -1 if gate.code == 1 else 0,
        }
        if made := shown.get(frozenset((first, second))):
            turn = 1 if made.comparison.second.agent == second else -1
            found["report"] = turn * WORDS[made.comparison.verdict]
        yield f"{first} {second}", found


def contradictions(found: dict[str, int], agents: int) -> list[str]:
    """What cannot both be true."""
    compare, ranked = found["compare"], found["leaderboard"]
    checks = {
        "viewer and compare": found["viewer"] == compare,
        "gate and compare": found["gate"] == min(0, compare),
        "report and leaderboard": found.get("report", ranked) == ranked,
        "leaderboard and compare": ranked == compare if agents == 2 else ranked in (0, compare),
    }
    return [name for name, holds in checks.items() if not holds]


@pytest.mark.parametrize("seed", range(6))
def test_a_random_job_has_no_contradiction(seatrial: Seatrial, tmp_path, seed):
    agents = random_job(tmp_path / "job", seed)
    for pair, found in verdicts(seatrial, tmp_path / "job", agents):
        assert contradictions(found, len(agents)) == [], (pair, found)


def test_eight_tasks_of_eight_lost_are_worse_everywhere(seatrial: Seatrial, tmp_path):
    trials = [record(f"t{at}", 1.0 - lost * (agent == "b"), agent) for at, lost in enumerate(LOST) for agent in "ab"]
    make_job(tmp_path / "job", *trials)
    ((_, found),) = verdicts(seatrial, tmp_path / "job", ["a", "b"])
    assert found == dict.fromkeys(("leaderboard", "compare", "viewer", "gate", "report"), -1)
