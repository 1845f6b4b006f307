"""Rows as trainers handle them: chosen, shuffled, changed, and never in place."""

import pickle

import pytest

from seatrial.env.row_dataset import RowDataset
from seatrial.errors import UsageError

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
