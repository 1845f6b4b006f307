"""What is read back from folders of evaluations: ours, half-written ones, and those of verifiers."""

import json

import pytest

from seatrial.env.kept_outputs import read_metadata, read_outputs, write_results
from seatrial.env.saving import keep_metadata
from seatrial.errors import StoreError
from tests.env.games import Guessing, counting


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
