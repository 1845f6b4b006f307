"""Evaluations that are stored as they go, broken off, and gone on with; rollouts that are no trials."""

import asyncio
import json

import pytest

import seatrial as vf
from seatrial.env.saving import keep_metadata, read_metadata, read_outputs, write_results
from seatrial.errors import StoreError
from tests.env.games import ROWS, Guessing, counting


class Counted:
    """A model that counts how often it is asked, and fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.asked = 0
        self.failures = failures

    async def __call__(self, request):
        self.asked += 1
        if self.asked <= self.failures:
            raise ConnectionError("gone")
        return counting(request["messages"])


def rewards(results):
    return [output["reward"] for output in results["outputs"]]


def test_finished_rollouts_are_not_run_again(tmp_path):
    model, env = Counted(), Guessing(max_turns=3)
    first = env.evaluate_sync(model, "m", save_to=tmp_path / "run")
    asked = model.asked
    again = env.evaluate_sync(model, "m", save_to=tmp_path / "run", resume=True)
    assert model.asked == asked
    assert rewards(again) == rewards(first) == [1.0, 1.0, 0.0]
    assert again["outputs"][2]["completion"] == first["outputs"][2]["completion"]
    assert [step["prompt"] for step in again["outputs"][2]["trajectory"]] == [
        step["prompt"] for step in first["outputs"][2]["trajectory"]
    ]


def test_an_evaluation_that_was_broken_off_is_gone_on_with(tmp_path):
    async def scenario():
        asked: list[int] = []

        async def stuck(request):
            if len(asked) == 2:
                task.cancel()
                await asyncio.Event().wait()
            asked.append(1)
            return "0"

        env = Guessing(max_turns=1)
        task = asyncio.create_task(env.evaluate(stuck, "m", max_concurrent=1, save_to=tmp_path))
        with pytest.raises(asyncio.CancelledError):
            await task
        model = Counted()
        results = await env.evaluate(model, "m", save_to=tmp_path, resume=True)
        return model.asked, results["metadata"]["scored"]

    assert asyncio.run(scenario()) == (1, 3)


def test_more_rollouts_and_more_examples_add_to_what_is_there(tmp_path):
    model, env = Counted(), Guessing(max_turns=1)
    env.evaluate_sync(model, "m", num_examples=2, save_to=tmp_path)
    results = env.evaluate_sync(model, "m", rollouts_per_example=2, save_to=tmp_path, resume=True)
    assert (results["metadata"]["scored"], model.asked) == (6, 6)


@pytest.mark.parametrize("change", ["model", "sampling", "row"])
def test_what_was_asked_otherwise_is_run_again(tmp_path, change):
    model, row = Counted(), {"question": "Guess.", "info": {"number": 0}}
    Guessing(dataset=[row], max_turns=1).evaluate_sync(model, "m", save_to=tmp_path)
    row = {**row, "question": "Guess!"} if change == "row" else row
    sampling = {"temperature": 0.0} if change == "sampling" else None
    name = "other" if change == "model" else "m"
    env = Guessing(dataset=[row], max_turns=1)
    env.evaluate_sync(model, name, sampling_args=sampling, save_to=tmp_path, resume=True)
    assert model.asked == 2


def test_a_failure_that_may_have_gone_is_tried_again(tmp_path):
    env = Guessing(max_turns=1)
    assert env.evaluate_sync(Counted(failures=1), "m", save_to=tmp_path)["metadata"]["errors"] == 1
    model = Counted()
    results = env.evaluate_sync(model, "m", save_to=tmp_path, resume=True)
    assert (results["metadata"]["scored"], model.asked) == (3, 1)
    env.evaluate_sync(model, "m", save_to=tmp_path, resume=True)
    assert model.asked == 1


def test_a_line_that_a_crash_tore_is_forgotten(tmp_path):
    env, model = Guessing(max_turns=1), Counted()
    env.evaluate_sync(model, "m", save_to=tmp_path)
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    for _ in range(2):
        results = env.evaluate_sync(model, "m", save_to=tmp_path, resume=True)
        assert (results["metadata"]["scored"], model.asked) == (3, 4)


def test_a_line_that_is_no_rollout_is_named_and_stops_nothing(tmp_path, caplog):
    (tmp_path / "rollouts.jsonl").write_text("{}\n")
    results = Guessing().evaluate_sync(counting, "m", save_to=tmp_path, resume=True)
    assert results["metadata"]["errors"] == 0
    assert "line 1 is no rollout" in caplog.text


def test_a_job_is_no_place_for_lines(tmp_path):
    (tmp_path / "job.json").write_text("{}")
    with pytest.raises(vf.JobError, match="holds a job, expected rollouts"):
        Guessing().evaluate_sync(counting, "m", save_to=tmp_path)


def test_a_folder_is_not_written_to_again_without_being_told(tmp_path):
    Guessing().evaluate_sync(counting, "m", save_to=tmp_path)
    with pytest.raises(vf.JobError, match="resume=True"):
        Guessing().evaluate_sync(counting, "m", save_to=tmp_path)


def test_to_resume_one_has_to_say_what():
    with pytest.raises(vf.UsageError, match="save_to"):
        Guessing().evaluate_sync(counting, "m", resume=True)


def test_two_evaluations_do_not_write_to_one_folder(tmp_path):
    async def scenario():
        asking = asyncio.Event()

        async def slow(request):
            asking.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(Guessing().evaluate(slow, "m", save_to=tmp_path))
        await asking.wait()
        with pytest.raises(vf.JobError, match="another run"):
            await Guessing().evaluate(counting, "m", save_to=tmp_path, resume=True)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(scenario())


def test_a_table_that_cannot_be_stored_harms_nobody(tmp_path):
    class Endless(Guessing):
        async def setup_state(self, state):
            if state["info"]["number"] == 0:
                state["info"]["self"] = state["info"]

    results = Endless(dataset=ROWS, max_turns=1).evaluate_sync(counting, "m", save_to=tmp_path)
    assert results["metadata"]["scored"] == 3
    again = Endless(dataset=ROWS, max_turns=1).evaluate_sync(counting, "m", save_to=tmp_path, resume=True)
    assert rewards(again) == rewards(results)


def by_place(states):
    return [float(state["place"]) for state in states]


class Noting(Guessing):
    """Leaves in the state what a function of the group reads."""

    def __init__(self, **options):
        super().__init__(max_turns=1, dataset=ROWS[:1], rubric=vf.Rubric([by_place]), **options)
        self.begun = 0

    async def setup_state(self, state):
        self.begun += 1
        state["place"] = self.begun


def test_a_group_that_was_scored_is_not_scored_anew(tmp_path):
    options = {"rollouts_per_example": 2, "save_to": tmp_path, "max_concurrent": 1}
    Noting().evaluate_sync(counting, "m", **options)
    kept = (tmp_path / "rollouts.jsonl").read_bytes()
    again = Noting().evaluate_sync(counting, "m", resume=True, **options)
    assert rewards(again) == [1.0, 2.0]
    assert [output["advantage"] for output in again["outputs"]] == [-0.5, 0.5]
    assert (tmp_path / "rollouts.jsonl").read_bytes() == kept


def test_a_group_of_which_one_is_made_again_is_kept_as_it_is_scored_then(tmp_path):
    options = {"rollouts_per_example": 2, "save_to": tmp_path, "max_concurrent": 1, "state_columns": ["place"]}
    failing = Counted(failures=1)
    first = Noting().evaluate_sync(failing, "m", **options)
    assert (rewards(first), first["outputs"][1]["advantage"]) == ([None, 2.0], 0.0)
    again = Noting().evaluate_sync(failing, "m", resume=True, **options)
    assert rewards(again) == [1.0, 2.0]
    assert [output["advantage"] for output in read_outputs(tmp_path)] == [-0.5, 0.5]


def test_messages_that_were_kept_are_like_new_ones(tmp_path):
    for resume in (False, True):
        results = Guessing(max_turns=3).evaluate_sync(counting, "m", save_to=tmp_path, resume=resume)
        output = results["outputs"][2]
        assert output["prompt"][0].role == output["trajectory"][0]["prompt"][0].role == "user"
        assert output["completion"][0].content == "0"


def test_what_json_has_no_form_for_does_not_cost_the_metadata(tmp_path):
    env = Guessing(max_turns=1, env_args={("a", 1): 2})
    assert env.evaluate_sync(counting, "m", save_to=tmp_path)["metadata"]["env_args"] == {("a", 1): 2}
    assert "cannot be stored" in json.loads((tmp_path / "metadata.json").read_text())["env_args"]


@pytest.fixture
def evaluated(tmp_path):
    results = Guessing(max_turns=2).evaluate_sync(counting, "m", rollouts_per_example=2, save_to=tmp_path)
    return tmp_path, results["outputs"]


def test_rollouts_come_back_by_their_examples(evaluated):
    folder, outputs = evaluated
    found = read_outputs(folder)
    assert [each["example_id"] for each in found] == [0, 0, 1, 1, 2, 2]
    assert [each["reward"] for each in found] == [each["reward"] for each in outputs]


def test_the_last_line_of_a_rollout_counts_and_damaged_ones_do_not(evaluated):
    folder, _ = evaluated
    path = folder / "rollouts.jsonl"
    first = json.loads(path.read_bytes().splitlines()[0])
    with path.open("a") as file:
        file.write(json.dumps({**first, "reward": 0.25}) + "\n{}\n[]\nnothing\n{")
    assert sorted(each["reward"] for each in read_outputs(folder)).count(0.25) == 1
    assert len(read_outputs(folder)) == 6


def test_results_have_the_columns_of_verifiers(evaluated):
    folder, outputs = evaluated
    write_results(folder, outputs)
    first = json.loads((folder / "results.jsonl").read_text().splitlines()[0])
    assert first["won"] == first["metrics"]["won"] == first["reward"] == 1.0
    assert first["completion"][-1]["content"] == "right"
    assert set(first["token_usage"]) == {"input_tokens", "output_tokens"}
    assert "trajectory" not in first


def test_what_json_has_no_form_for_loses_nothing_else(evaluated):
    folder, outputs = evaluated
    endless: list[object] = []
    endless.append(endless)
    write_results(folder, [{**outputs[0], "info": {"endless": endless}}])
    assert json.loads((folder / "results.jsonl").read_text())["reward"] == 1.0


def test_results_of_verifiers_are_read_where_there_is_nothing_of_ours(tmp_path):
    lines = [{"example_id": 1, "reward": 0.0}, {"example_id": 0, "reward": 1.0}]
    (tmp_path / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert [each["reward"] for each in read_outputs(tmp_path)] == [1.0, 0.0]


def test_a_folder_without_rollouts_is_none(tmp_path):
    with pytest.raises(StoreError, match=r"neither rollouts.jsonl nor results.jsonl"):
        read_outputs(tmp_path)


@pytest.mark.parametrize("content", [None, "[]", "{"])
def test_metadata_that_is_not_there_is_empty(tmp_path, content):
    if content is not None:
        (tmp_path / "metadata.json").write_text(content)
    assert read_metadata(tmp_path) == {}


def test_metadata_takes_the_place_of_what_was_there(tmp_path):
    for model in "ab":
        keep_metadata(tmp_path / "new", {"model": model})
    assert read_metadata(tmp_path / "new") == {"model": "b"}
