"""One folder has one mean, one pass rate and one count of passes, whichever command or function shows them.

Groups are uneven: a task that has lost an attempt weighs as much as one that has all, and the mean over rollouts, which
verifiers calls `avg_reward`, is another number.
"""

import asyncio
import csv
import json
import shutil
from pathlib import Path

import pytest

import seatrial as vf
from seatrial.analysis.loaded import load_job
from seatrial.env.figures import evaluation_figures
from seatrial.env.saving import read_outputs, write_results
from seatrial.errors import SandboxError
from tests.cli.conftest import Seatrial, cells
from tests.env.games import counting
from tests.env.worlds import REWARD_TXT, evaluate, harbor_env, make_tasks, world
from tests.view.viewers import settings_for, viewer

REWARDS = {"a": (1.0, 1.0, 0.5), "b": (0.6, None, None), "c": (None, None, 0.0)}
"""None is a rollout that the machine failed."""

MEAN, ROLLOUT_MEAN = (2.5 / 3 + 0.6 + 0.0) / 3, 3.1 / 5
PASS_RATE, PASSED, SCORED = (2 / 3 + 0.0 + 0.0) / 3, 2, 5


def numbers(tally):
    return {name: tally[name] for name in ("mean", "pass_rate", "scored", "planned")}


EXPECTED = pytest.approx({"mean": MEAN, "pass_rate": PASS_RATE, "scored": SCORED, "planned": 9})


async def first_page(job: Path) -> str:
    """What the viewer shows of it."""
    async with viewer(settings_for(job)) as client:
        return await (await client.get("/")).text()


def shown(seatrial: Seatrial, job) -> None:
    """A job has the same numbers in every command and file."""
    document = json.loads(seatrial("show", job, "--json").out)
    assert numbers(document["summary"]["total"]) == EXPECTED
    (arm,) = document["arms"]
    assert (arm["figures"]["mean"]["value"], arm["figures"]["pass_rate"]["value"]) == pytest.approx((MEAN, PASS_RATE))
    assert (arm["figures"]["pass_at"]["1"]["value"], arm["figures"]["solved"]) == (pytest.approx(PASS_RATE), PASSED)
    table = [cells(line) for line in seatrial("show", job).out.splitlines()]
    assert [row[1] for row in table if row[-1:] == [f"{SCORED} of 9"]] == [f"{MEAN:.3f}"]
    (row,) = json.loads(seatrial("leaderboard", job, "--json").out)["rows"]
    assert row["figures"]["mean"]["value"] == pytest.approx(MEAN)
    for format_name in ("markdown", "html", "latex"):
        report = seatrial("report", job, "-o", "-", "--format", format_name).out
        assert f"{MEAN:.3f}" in report
        assert f"{ROLLOUT_MEAN:.3f}" not in report or format_name == "html"  # the page has a column for it
    rows = csv.DictReader(seatrial("report", job, "-o", "-", "--format", "csv").out.splitlines())
    assert [each["passed"] for each in rows].count("true") == PASSED
    shutil.copytree(job, job.with_name(f"{job.name}-copy"))
    pair = json.loads(seatrial("compare", job, job.with_name(f"{job.name}-copy"), "--json", "--force").out)[
        "comparisons"
    ]
    assert [numbers(pair[0][side]["summary"]) for side in ("first", "second")] == [EXPECTED] * 2
    assert f">{MEAN:.3f}<" in asyncio.run(first_page(job))
    loaded = load_job(job)
    assert (loaded.arms[0].figures.mean, loaded.summary.total.mean) == pytest.approx((MEAN, MEAN))


def named(metadata):
    """Those of an evaluation, by the names of its metadata."""
    assert (metadata["avg_reward"], metadata["passed"]) == (pytest.approx(ROLLOUT_MEAN), PASSED)
    assert (metadata["pass_threshold"], metadata["pass_at_k"]["1"]) == (1.0, pytest.approx(PASS_RATE))
    found = {"mean": metadata["mean_reward"], "pass_rate": metadata["pass_rate"]}
    return {**found, "scored": metadata["scored"], "planned": metadata["planned"]}


def test_rollouts_that_are_trials(seatrial: Seatrial, tmp_path):
    folder = make_tasks(tmp_path / "tasks", *REWARDS)
    left = {task: iter(rewards) for task, rewards in REWARDS.items()}

    class Judged(vf.HarborEnv):
        async def compute_reward(self, state):
            reward = next(left[state["task"]])
            if reward is None:
                state["error"] = SandboxError("gone")
            return reward or 0.0

    environment = harbor_env(folder, Judged, backend=world())
    results = evaluate(environment, save_to=tmp_path / "job", rollouts_per_example=3, max_concurrent=1)
    assert named(results["metadata"]) == EXPECTED
    kept = evaluation_figures(read_outputs(tmp_path / "job"), 9, by_task=True).figures
    assert (kept.mean, kept.pass_rate, kept.solved) == pytest.approx((MEAN, PASS_RATE, PASSED))
    shown(seatrial, tmp_path / "job")


def test_other_rollouts_and_their_import(seatrial: Seatrial, tmp_path):
    left = iter([reward for rewards in REWARDS.values() for reward in rewards])

    def judge():
        reward = next(left)
        if reward is None:
            raise vf.SandboxError("gone")
        return reward

    rows = [{"prompt": f"Task {task}"} for task in REWARDS]
    environment = vf.MultiTurnEnv(dataset=rows, rubric=vf.Rubric([judge]), max_turns=1, env_id="judged")
    options = {"rollouts_per_example": 3, "max_concurrent": 1, "retries": 0}
    results = environment.evaluate_sync(counting, "m", save_to=tmp_path / "out", **options)
    assert named(results["metadata"]) == EXPECTED
    write_results(tmp_path / "out", results["outputs"])
    assert named(json.loads((tmp_path / "out/metadata.json").read_text())) == EXPECTED
    assert named(json.loads(seatrial("show", tmp_path / "out", "--json").out)) == EXPECTED
    screen = seatrial("show", tmp_path / "out").out
    assert [f"{MEAN:.3f}", f"{PASSED} of {SCORED}"] == [cells(screen.splitlines()[2])[at] for at in (1, 3)]
    assert f"the mean of rollouts is {ROLLOUT_MEAN:.3f}: not all examples have equally many" in screen
    imported = json.loads(seatrial("import", tmp_path / "out", "-o", tmp_path / "imported", "--json").out)
    assert (imported["means"][0]["mean"], imported["means"][0]["stored"]) == pytest.approx((MEAN, ROLLOUT_MEAN))
    shown(seatrial, tmp_path / "imported")


def test_the_records_of_an_environment_pass_from_its_own_mark(tmp_path):
    environment = harbor_env(make_tasks(tmp_path / "tasks", "a"), backend=world(verdict={REWARD_TXT: b"0.6"}))
    assert (environment.pass_threshold, environment.trial_options.pass_threshold) == (1.0, 1.0)
    lenient = harbor_env(tmp_path / "tasks", backend=world(verdict={REWARD_TXT: b"0.6"}), pass_threshold=0.5)
    assert evaluate(environment, save_to=tmp_path / "strict")["metadata"]["passed"] == 0
    assert evaluate(lenient, save_to=tmp_path / "lenient")["metadata"]["passed"] == 1
    found = [load_job(tmp_path / name) for name in ("strict", "lenient")]
    assert [(job.threshold, job.summary.total.solved) for job in found] == [(1.0, 0), (0.5, 1)]
    lenient.pass_threshold = 0.7
    assert lenient.trial_options.pass_threshold == 0.7
    with pytest.raises(vf.UsageError, match=r"pass_threshold is 2\.0, expected a reward from 0 to 1"):
        harbor_env(tmp_path / "tasks", pass_threshold=2.0)
