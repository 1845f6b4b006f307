"""Rows of datasets: what is put into them, and which cannot be used."""

import pickle
from typing import Any

import datasets
import pytest

from seatrial.env.rows import RowDataset, RowFormat, choose, format_row, load_rows
from seatrial.errors import UsageError

USUAL = RowFormat()


def test_a_huggingface_dataset_a_list_and_a_function_are_datasets():
    rows = [{"question": "1 + 1", "answer": "2"}]
    meant = [
        {"question": "1 + 1", "answer": "2", "example_id": 0, "prompt": [{"role": "user", "content": "1 + 1"}]}
        | {"task": "default"}
    ]
    for source in (rows, tuple(rows), datasets.Dataset.from_list(rows), lambda: rows):
        assert load_rows(source, USUAL) == meant


def test_a_question_becomes_a_prompt_with_system_prompt_and_examples():
    shots = ({"role": "user", "content": "0 + 0"}, {"role": "assistant", "content": "0"})
    row = format_row({"question": "1 + 1"}, 7, RowFormat("math", "Be brief.", shots))
    assert [message["role"] for message in row["prompt"]] == ["system", "user", "assistant", "user"]
    assert (row["example_id"], row["task"]) == (7, "math")


def test_a_prompt_gets_the_system_prompt_unless_it_has_one():
    form = RowFormat(system_prompt="ours")
    own = [{"role": "system", "content": "its own"}, {"role": "user", "content": "x"}]
    assert format_row({"prompt": "x"}, 0, form)["prompt"][0] == {"role": "system", "content": "ours"}
    assert format_row({"prompt": own}, 0, form)["prompt"] == own


def test_an_example_id_that_is_no_number_becomes_a_source_id():
    row = format_row({"prompt": "x", "example_id": "a-7"}, 3, USUAL)
    assert (row["example_id"], row["src_id"]) == (3, "a-7")
    assert format_row({"prompt": "x", "example_id": 9}, 3, USUAL)["example_id"] == 9


@pytest.mark.parametrize("row", [{}, {"prompt": 7}, {"question": 7}, "text", None])
def test_a_row_that_cannot_be_used_is_named(row):
    with pytest.raises(UsageError, match="row 1 of the dataset"):
        load_rows([{"prompt": "fine"}, row], USUAL)


def test_rows_are_chosen_from_the_front_or_shuffled_in_the_same_way_each_time():
    rows = RowDataset({"example_id": number} for number in range(10))
    assert choose(rows, 2, None) == rows[:2]
    assert choose(rows, -1, None) == rows
    assert choose(rows, 99, None) == rows
    assert choose(rows, 3, 1) == choose(rows, 3, 1) != choose(rows, 3, 2)


def test_what_a_table_of_columns_fills_up_is_no_part_of_messages():
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    prompt: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "See:"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": ""}}]},
    ]
    mixed: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "See:", "image_url": None}, {**picture, "text": None}]}
        | {"tool_calls": None},
        {**prompt[1], "name": None},
    ]
    assert format_row({"prompt": mixed}, 0, USUAL)["prompt"] == format_row({"prompt": prompt}, 0, USUAL)["prompt"]
    assert "name" not in format_row({"question": "?"}, 0, RowFormat(few_shot=mixed))["prompt"][1]


ROWS = [{"question": str(number), "answer": number} for number in range(5)]
DATASET = RowDataset(ROWS)


def test_it_is_a_sequence_of_rows_and_equal_to_a_list_of_them():
    assert list(DATASET) == DATASET.to_list() == ROWS
    assert DATASET == ROWS
    assert ROWS[1:] != DATASET
    assert (len(DATASET), DATASET.num_rows, DATASET[-1]) == (5, 5, ROWS[-1])
    assert pickle.loads(pickle.dumps(DATASET)) == DATASET  # noqa: S301 - our own


def test_columns_and_slices_are_read_as_huggingface_has_them():
    assert DATASET["answer"] == [0, 1, 2, 3, 4]
    assert DATASET[1:3]["answer"] == [1, 2]
    assert DATASET[[4, 0]]["answer"] == [4, 0]
    assert DATASET.column_names == ["question", "answer"]
    with pytest.raises(UsageError, match="no column 'anser'; it has: question, answer"):
        DATASET["anser"]


def test_rows_are_selected_filtered_and_cut():
    assert DATASET.select(range(2)) == ROWS[:2]
    assert DATASET.select([3, 3])["answer"] == [3, 3]
    assert DATASET.filter(lambda row: row["answer"] > 2)["answer"] == [3, 4]
    assert DATASET.filter(lambda _, at: at == 1, with_indices=True, num_proc=4)["answer"] == [1]
    assert DATASET.take(2)["answer"] + DATASET.skip(2)["answer"] == DATASET["answer"]
    assert DATASET.repeat(2)["answer"] == DATASET["answer"] * 2
    with pytest.raises(UsageError, match="beyond the 5 rows"):
        DATASET.select([5])


def test_a_shuffle_depends_on_its_seed_alone():
    assert DATASET.shuffle(seed=1) == DATASET.shuffle(1)
    assert DATASET.shuffle(1) != DATASET.shuffle(2)
    assert sorted(DATASET.shuffle(1)["answer"]) == DATASET["answer"]


def test_columns_are_changed_in_new_rows():
    assert DATASET.map(lambda row: {"answer": row["answer"] * 2})["answer"] == [0, 2, 4, 6, 8]
    assert DATASET.map(lambda _, at: {"at": at}, with_indices=True)["at"] == [0, 1, 2, 3, 4]
    assert DATASET.add_column("level", "abcde")["level"] == list("abcde")
    assert DATASET.remove_columns("answer").column_names == ["question"]
    assert DATASET.rename_column("answer", "number").column_names == ["question", "number"]
    assert DATASET.column_names == ["question", "answer"]
    with pytest.raises(UsageError, match="has 1 values, expected 5"):
        DATASET.add_column("level", [1])
    with pytest.raises(UsageError, match="no column 'level'"):
        DATASET.remove_columns(["level"])
    with pytest.raises(UsageError, match="batched=True"):
        DATASET.map(dict, batched=True)


def test_it_becomes_a_huggingface_dataset():
    pytest.importorskip("datasets")
    assert DATASET.to_hf().select(range(2)).to_list() == ROWS[:2]
