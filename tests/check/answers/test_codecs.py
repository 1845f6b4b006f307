import json
import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.check.answers.codecs import DataAnswer, read_data, same
from seatrial.check.answers.toml_text import write_toml
from seatrial.model.output import OutputFormat

TEXTS: dict[OutputFormat, str] = {
    "json": '{\n  "a": 1,\n  "b": [\n    1.5,\n    "x"\n  ]\n}\n',
    "jsonl": '{"a": 1}\n{"a": 2}\n',
    "md": '# Report\n\n```json\n{"a": 0}\n```\n\nand\n\n```json\n{\n  "a": 1\n}\n```\n',
    "csv": "name,size\nbolt,3.50\nnut,4\n",
    "tsv": "name\tsize\nbolt\t3.50\n",
    "yaml": "a: 1\nb:\n- x\n- y\n",
    "toml": 'a = 1\nb = "x"\n\n[[c]]\nd = 1.5\n\n[[c]]\nd = 2.5\n',
}
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(st.text(), PLAIN.filter(lambda value: value is not None), max_size=4)


def read(text: str, answer_format: OutputFormat) -> DataAnswer:
    answer = read_data(text.encode(), answer_format)
    assert answer is not None
    return answer


@pytest.mark.parametrize("answer_format", TEXTS)
def test_what_is_read_is_written_as_it_was(answer_format):
    text = TEXTS[answer_format]
    answer = read(text, answer_format)
    assert answer.written(answer.value) == text.encode()


def test_the_last_block_of_a_report_is_what_counts():
    answer = read(TEXTS["md"], "md")
    assert answer.value == {"a": 1}
    changed = answer.written({"a": 7})
    assert changed is not None
    assert b'{"a": 0}' in changed
    assert b'"a": 7' in changed


def test_cells_are_text_and_a_column_can_go():
    answer = read(TEXTS["csv"], "csv")
    assert answer.value[0] == {"name": "bolt", "size": "3.50"}
    assert answer.written([{"name": row["name"]} for row in answer.value]) == b"name\nbolt\nnut\n"


@pytest.mark.parametrize(
    ("content", "answer_format"),
    [
        (b"{", "json"), (b"[" * 100_000, "json"), (b"\xff", "json"), (b"# no block\n", "md"), (b"a,a\n1,2\n", "csv"),
        (b"a,b\n1\n", "csv"), (b"a\n", "csv"), (b"1: x\n", "yaml"), (b"---\na: 1\n---\nb: 1\n", "yaml"),
        (b"a = \n", "toml"),
        (b"", "jsonl"), (b"plain", "txt"), (b"plain", None), (b" " * (2**20 + 1), "json"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_nothing(content, answer_format):
    assert read_data(content, answer_format) is None


@given(TABLES)
def test_tables_written_as_toml_are_the_same_when_read(table):
    try:
        text = write_toml(table)
    except ValueError:  # null somewhere inside
        return
    assert same(tomllib.loads(text), table)


def test_dates_and_odd_numbers_are_toml_too():
    table: dict[str, Any] = {"day": date(2024, 5, 6), "big": float("inf"), "none": float("nan"), "list": [{}, 1]}
    assert same(tomllib.loads(write_toml(table)), table)


@given(PLAIN)
def test_json_is_written_as_the_value_it_is(value):
    answer = read("0", "json")
    written = answer.written(value)
    assert written is None or same(json.loads(written), value)


def test_alike_means_to_the_type():
    assert same([float("nan"), {"a": 1}], [float("nan"), {"a": 1}])
    assert not same(1, 1.0)
    assert not same(True, 1)
    assert not same({"a": 1}, {"b": 1})


def test_what_a_format_would_say_otherwise_is_not_written():
    answer = read(TEXTS["csv"], "csv")
    assert answer.written([{"name": "bolt", "size": 4}]) is None
    assert answer.written([{"name": "bolt", "size": "4"}]) == b"name,size\nbolt,4\n"
