"""Arguments that are passed on are shown where they may be given; those that nothing takes are refused."""

import asyncio
import inspect
import json
from dataclasses import fields
from typing import Any

import pytest

import seatrial as vf
from seatrial.env.arguments import constructor_arguments, passes_on
from seatrial.env.sandboxes import SandboxSettings
from tests.env.games import ROWS, Guessing, counting
from tests.env.worlds import cli_env


def taker(first=1, second=2, *, third=3):
    return first, second, third


@passes_on(taker)
def giver(own: int, **kwargs: int) -> tuple[int, dict[str, int]]:
    return own, kwargs


given: Any = giver  # mypy knows only its own


def test_arguments_that_are_passed_on_come_behind_the_own_ones():
    shown = "(own: int, first=1, second=2, *, third=3, **kwargs: int) -> tuple[int, dict[str, int]]"
    assert str(inspect.signature(giver)) == shown


def test_they_may_be_given_by_position_or_by_name():
    assert given(7, 8, third=10, other=11) == (7, {"first": 8, "third": 10, "other": 11})
    assert given(own=7, second=8) == (7, {"second": 8})


def test_too_many_or_too_few_are_an_error():
    with pytest.raises(TypeError, match="too many positional"):
        given(1, 2, 3, 4)
    with pytest.raises(TypeError, match="own"):
        given(first=1)


@pytest.mark.parametrize("kind", [vf.CliAgentEnv, vf.SandboxEnv])
def test_what_may_be_said_about_sandboxes_is_shown_with_its_defaults(kind):
    shown = inspect.signature(kind).parameters
    assert {each.name: shown[each.name].default for each in fields(SandboxSettings)} == {
        each.name: each.default for each in fields(SandboxSettings)
    }
    assert {each.name for each in fields(SandboxSettings)} <= set(constructor_arguments(kind))


def test_settings_are_taken_out_of_the_arguments():
    arguments = {"cpu_cores": 2.0, "rubric": None, "labels": ["a"]}
    assert SandboxSettings.take_from(arguments) == SandboxSettings(cpu_cores=2.0, labels=["a"])
    assert arguments == {"rubric": None}


def test_a_setting_that_is_misspelt_is_refused_with_the_right_one():
    with pytest.raises(vf.UnknownArgumentError, match="did you mean memory_gb"):
        cli_env(memory_gbs=2)


class Flaky(Guessing):
    """Each rollout fails until the machine has been asked often enough."""

    def __init__(self, failures, **kwargs):
        super().__init__(**kwargs)
        self.left = failures

    async def setup_state(self, state):
        if self.left:
            self.left -= 1
            raise vf.SandboxError("gone for a moment")


@pytest.mark.parametrize(("failures", "tries", "errors"), [(2, 2, 0), (3, 2, 1), (1, 0, 1)])
def test_what_failed_for_a_moment_is_tried_again_as_often_as_is_said(monkeypatch, failures, tries, errors):
    monkeypatch.setattr("seatrial.jobs.attempt.backoff_sec", lambda _: 0.0)
    env = Flaky(failures, dataset=ROWS[:1], max_turns=1)
    assert env.evaluate_sync(counting, "m", max_retries=tries)["metadata"]["errors"] == errors


def test_what_would_fail_again_is_not_tried_again():
    asked = []

    class Broken(Guessing):
        async def setup_state(self, state):
            asked.append(1)
            raise KeyError("mine")

    Broken(dataset=ROWS[:1]).evaluate_sync(counting, "m", max_retries=5)
    assert asked == [1]


def test_rows_are_shuffled_by_a_seed_before_they_are_chosen():
    env = Guessing(dataset=[{"prompt": str(number)} for number in range(20)], max_turns=1)

    def asked(**options):
        outputs = env.evaluate_sync(counting, "m", num_examples=5, rollouts_per_example=2, **options)["outputs"]
        return [output["example_id"] for output in outputs]

    assert asked() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert asked(shuffle=True) == asked(shuffle=True, shuffle_seed=0) != asked(shuffle=True, seed=1)
    assert asked(shuffle=True, seed=1)[::2] == asked(shuffle=True, seed=1)[1::2] != [0, 1, 2, 3, 4]
    metadata = env.evaluate_sync(counting, "m", num_examples=1, shuffle=True, seed=3)["metadata"]
    assert (metadata["shuffle"], metadata["shuffle_seed"]) == (True, 3)
    rows = [{"prompt": str(number)} for number in range(20)]
    shuffled = env.generate_sync(rows, counting, "m", shuffle=True, seed=1)["outputs"]
    assert sorted(output["example_id"] for output in shuffled) == list(range(20))
    assert [output["example_id"] for output in shuffled][::2] != list(range(0, 20, 2))


def test_those_who_want_to_know_are_told():
    started: list[tuple[int, int]] = []
    said: list[str] = []
    told = []

    def progress(outputs, new, metadata):
        told.append((len(outputs), len(new), metadata["scored"], metadata.get("avg_reward")))

    env = Guessing(max_turns=2)
    options = {"on_start": lambda rows, due: started.append((len(rows), len(due))), "on_progress": [progress]}
    env.evaluate_sync(counting, "m", max_concurrent=1, on_log=said.append, **options)
    assert (started, said) == ([(3, 3)], [])
    assert told == [(1, 1, 1, 1.0), (2, 1, 2, 0.5), (3, 1, 3, pytest.approx(1 / 3))]


def test_results_are_saved_where_a_path_says_and_gone_on_with(tmp_path):
    said: list[str] = []
    env = Guessing(max_turns=2)
    first = env.evaluate_sync(counting, "m", save_results=True, results_path=tmp_path / "kept", on_log=said.append)
    assert said == [f"rollouts are kept in {tmp_path / 'kept'}"]
    stored = json.loads((tmp_path / "kept" / "metadata.json").read_text())
    assert stored["avg_reward"] == first["metadata"]["avg_reward"]
    assert first["metadata"]["path_to_save"] == str(tmp_path / "kept")
    again = env.evaluate_sync(lambda messages: 1 / 0, "m", results_path=tmp_path / "kept")
    assert again["metadata"]["errors"] == 0


def test_results_are_saved_in_a_new_folder_without_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metadata = Guessing(env_id="guess").evaluate_sync(counting, "org/m", save_results=True)["metadata"]
    (folder,) = (tmp_path / "outputs" / "evals" / "guess--org--m").iterdir()
    assert metadata["path_to_save"].endswith(folder.name)
    assert len((folder / "rollouts.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resume": True}, "name it by save_to"),
        ({"address": "here"}, "name its engine too"),
        ({"max_retries": -1}, "max_retries is -1"),
        ({"retries": -1}, "retries is -1"),
        ({"push_to_hf_hub": True}, "nothing is sent to a hub"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(options, said):
    with pytest.raises(vf.UsageError, match=said):
        Guessing().evaluate_sync(lambda messages: 1 / 0, "m", **options)


def test_limits_of_older_releases_are_taken():
    running, most = 0, 0

    async def model(messages):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "0"

    env = Guessing(dataset=ROWS * 5, max_turns=1)
    env.evaluate_sync(model, "m", max_concurrent_generation=2, max_concurrent_scoring=9, use_tqdm=False, save_every=3)
    assert most == 2
    env.set_concurrency(4)
    env.evaluate_sync(model, "m")
    assert most == 4


def test_callbacks_may_be_async():
    told = []

    async def note(*what):
        await asyncio.sleep(0)
        told.append(len(what))

    Guessing(max_turns=1, dataset=ROWS[:1]).evaluate_sync(counting, "m", on_start=note, on_progress=[note])
    assert told == [2, 3]


def test_a_single_column_of_the_state_may_be_named_alone():
    output = Guessing(max_turns=1).evaluate_sync(counting, "m", state_columns="model")["outputs"][0]
    assert output["model"] == "m"
    assert "e" not in output
