import sys
import types

import pytest

from seatrial.compat.example_data import load_example_dataset
from seatrial.errors import UsageError


class Rows(list[dict[str, str]]):
    """What of a HuggingFace Dataset is used."""

    column_names = ("question", "answer")

    def shuffle(self, seed):
        return Rows(sorted(self, key=lambda row: (row["answer"], seed), reverse=True))

    def select(self, indices):
        return Rows(self[at] for at in indices)

    def map(self, function, remove_columns):
        assert remove_columns == self.column_names
        return Rows(function(row) for row in self)


def hub(monkeypatch, load):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))


def test_a_row_becomes_a_question_and_an_answer(monkeypatch):
    rows = Rows({"question": f"{n}+0?", "answer": f"as it is #### {n}"} for n in range(3))
    hub(monkeypatch, lambda path, config: {"test": rows, "train": Rows()} if path == "openai/gsm8k" else None)
    assert load_example_dataset("gsm8k")[1] == {"question": "1+0?", "answer": "1"}
    assert load_example_dataset("gsm8k", n=1) == [{"question": "2+0?", "answer": "2"}]
    assert load_example_dataset("gsm8k", split="train") == []


def test_a_name_that_there_is_not_is_told_those_that_there_are():
    with pytest.raises(UsageError, match="there are aime2024, amc2023, gsm8k"):
        load_example_dataset("gsm9k")


def test_a_hub_that_does_not_answer_is_no_riddle(monkeypatch):
    def unreachable(path, config):
        raise ConnectionError("no route")

    hub(monkeypatch, unreachable)
    with pytest.raises(UsageError, match=r"got nothing from the hub \(ConnectionError: no route\).* rows of your own"):
        load_example_dataset("math")


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[hf\]'"):
        load_example_dataset()
