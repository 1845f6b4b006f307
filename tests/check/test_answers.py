import json
import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.check.answers import DataAnswer, Vocabulary, read_data, same
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
    written = read("", "toml").written(table)
    assert written is None or same(tomllib.loads(written.decode()), table)


def test_dates_and_odd_numbers_are_toml_too():
    table: dict[str, Any] = {"day": date(2024, 5, 6), "big": float("inf"), "none": float("nan"), "list": [{}, 1]}
    written = read("", "toml").written(table)
    assert written is not None
    assert same(tomllib.loads(written.decode()), table)


def test_null_has_no_place_in_toml():
    assert read("", "toml").written({"a": [None]}) is None


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


BEAM = """
The check it comes from governs (`"deflection"` or `"stress"`). The verdict is `"pass"` or `"fail"`.

Write `utilisation` and `note`, which may say anything. The frame is at most 252 bytes, 0xA001 is the polynomial,
and 1,024 the size. Results within 5 % are fine; 40 % of the rows are bad.
"""


def words(instruction: str, **tests: str) -> Vocabulary:
    return Vocabulary(instruction, {name: text.encode() for name, text in tests.items()})


def test_names_and_words_are_whole_ones():
    beam = words(BEAM, verify='assert answer["side"] == "left"')
    assert beam.names("utilisation")
    assert not beam.names("util")
    assert beam.knows("stress")
    assert beam.knows("left")
    assert not beam.knows("right")


def test_other_words_are_those_quoted_beside_it():
    assert words(BEAM).others_like("pass") == ("fail", "stress", "deflection")
    assert words(BEAM).others_like("unheard") == ()


def test_numbers_are_read_in_every_notation():
    beam = words(BEAM)
    assert [beam.says_number(value) for value in (252, 0xA001, 1024, 253)] == [True, True, True, False]


def test_fields_are_free_by_their_name_or_by_what_is_said_of_them():
    beam = words("`colour` may be any text.\n`size` is the size.")
    assert [beam.leaves_free(name) for name in ("colour", "size")] == [True, False]
    assert all(beam.leaves_free(name) for name in ("pid", "notes", "generated_at", "createdAt", "run_id"))


def test_the_widest_tolerance_is_one_that_is_said_to_be_one():
    assert words(BEAM).widest_tolerance == 0.4
    assert words("50 % of the load is live.").widest_tolerance == 0


def test_exact_bytes_are_asked_for_in_many_words():
    asked = ["byte for byte", "must match exactly", "its SHA-256", "exactly the following text", "no trailing newline"]
    assert all(words(f"The file is … {text} …").exact_bytes for text in asked)
    free = ["exactly these keys", "exactly this structure", "the exact value of pi", "one JSON object per line"]
    assert [words(text).exact_bytes for text in free] == [None] * 4


def test_orders_of_keys_and_ends_of_lines_are_noticed():
    assert words("with sorted keys").ordered_keys
    assert words("The keys appear in this order").ordered_keys
    assert words("ends in a newline").last_line
    assert (words(BEAM).ordered_keys, words(BEAM).last_line) == (None, None)
