"""Every format accepts what it should, and refuses the rest with the place of the fault."""

import io
import json
import struct
import zipfile
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.model.output import OUTPUT_FORMATS, OutputSpec, ShapeSpec
from seatrial.scoring.formats import PARSERS, parse
from seatrial.untrusted.json import Unreadable


def spec(name, **more):
    return OutputSpec(path=f"/workspace/out.{name}", format=name, source="declared", **more)


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return buffer.getvalue()


def office(part, text="<doc/>"):
    return archive(**{"[Content_Types].xml": "<Types/>", part: text})


def chunk(kind, body=b""):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0" * 13) + chunk(b"IDAT", b"x") + chunk(b"IEND")

GOOD = {
    "json": [b'{"a": 1}', b"[]", b"null", b"3.5", b'\xef\xbb\xbf{"a": 1}', b'{"a": 1, "a": 2}'],
    "jsonl": [b'{"a": 1}\n{"a": 2}\n', b"1\n\n2", b'{"a": 1}\r\n{"a": 2}\r\n'],
    "csv": [b"a,b\n1,2\n", b'a,b\r\n"x\r\ny",2\r\n', b"a\n", "ä,ö\n1,2".encode()],
    "tsv": [b"a\tb\n1\t2\n"],
    "md": [b"# Report\n", b"", b"text\n```json\nnot looked at\n```\n"],
    "yaml": [
        b"a: 1\nb: [1, 2]\n",
        b"- 1\n- 2\n",
        b"---\na: 1\n---\nb: 2\n",
        b"x: &x {a: 1}\ny: *x\n",
        b"day: 2024-01-02\n",
    ],
    "toml": [b"a = 1\n[b]\nc = 2024-01-02\n", b"", b"a = 1\r\n"],
    "xml": [
        b"<a><b/></a>",
        b'<?xml version="1.0"?><!DOCTYPE a><a/>',
        "<?xml version='1.0' encoding='utf-16'?><a/>".encode("utf-16"),
    ],
    "html": [b"<!doctype html><p>hi", b"<html></html>"],
    "txt": [b"", b"anything\r\n", "ü".encode()],
    "pdf": [b"%PDF-1.7\n1 0 obj\nendobj\n%%EOF\n"],
    "png": [PNG],
    "zip": [archive(a="1"), archive()],
    "xlsx": [office("xl/workbook.xml")],
    "docx": [office("word/document.xml")],
    "ipynb": [b'{"nbformat": 4, "cells": []}'],
}

LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (ord("b") + n, ord("b") + n, b",".join([b"*%c" % (ord("a") + n)] * 10)) for n in range(8)
)

BAD = {
    "json": [
        (b'{"a": 1,}', "line 1, column 8"),
        (b'{\n "a": NaN\n}', "line 2, column 7"),
        (b"", "line 1"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a": 1} x', "line 1, column 10"),
        (b"[" * 200 + b"]" * 200, "nested deeper than 100"),
        (b"[" * 100_000, "column"),
        (b'"\\ud800"', "line 1"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b'{"a":\n"\xff"}', "line 2, column 2"),
    ],
    "jsonl": [(b'{"a": 1}\n{"a": \n', "line 2"), (b"\n\n", "no line with a value"), (b"", "no line with a value")],
    "csv": [
        (b'a,b\n"x,2\n', "line 2"),
        (b"", "empty"),
        (b"a,b\n\xff,1\n", "line 2, column 1"),
        (b'a,b\n"x"y,2\n', "line 2"),
    ],
    "tsv": [(b"\n\n", "empty")],
    "md": [(b"\xff", "line 1, column 1")],
    "yaml": [
        (b"a: [1, 2\nb: 3\n", "line 2"),
        (b"a: b: c\n", "line 1"),
        (b"a: &a [*a]\n", "alias contains itself"),
        (LAUGHS, "aliases expand"),
        (b"[" * 90_000, "nested deeper"),
        (b"- " * 90_000, "nested deeper"),
        (b"? " * 90_000, "nested deeper"),
        (b"!!python/object/apply:os.system ['true']", "line 1"),
        (b"a: " + b"[" * 150 + b"]" * 150, "nested deeper"),
        (b"a: 1\n" * 900_000, "at most"),
    ],
    "toml": [
        (b"a = \n", "line 1, column 5"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"a = " + b"[" * 50_000, "nested too deeply"),
    ],
    "xml": [
        (b"<a><b></a>", "line 1, column"),
        (b"", "not XML"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "entity x is declared"),
        (b"<a>" * 500 + b"</a>" * 500, "nested deeper"),
        (b"<a/><b/>", "line 1, column 5"),
    ],
    "html": [(b"just words", "no element"), (b"a < b", "no element")],
    "txt": [
        (b"a\nb\0", "line 2, column 2"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"\xef\xbb\xbfab\xfe", "0xfe, expected UTF-8 text (line 1, column 3)"),
    ],
    "pdf": [(b"hello", "%PDF-"), (b"%PDF-1.7\n", "cut short")],
    "png": [
        (b"", "signature"),
        (b"GIF89a", "signature"),
        (PNG[:-12], "cut short"),
        (PNG[:8] + chunk(b"IEND"), "header"),
    ],
    "zip": [(b"PK\x03\x04", "not a ZIP"), (b"", "not a ZIP")],
    "xlsx": [
        (archive(a="1"), "[Content_Types].xml"),
        (office("word/document.xml"), "xl/workbook.xml"),
        (b"", "not a ZIP"),
    ],
    "docx": [(office("word/document.xml", "<a>"), "not XML")],
    "ipynb": [(b"{}", "nbformat"), (b"[]", "nbformat"), (b'{"nbformat": 4, "cells": 1}', "nbformat"), (b"{", "line 1")],
}  # fmt: skip


def rows(table):
    return [
        pytest.param(name, item, id=f"{name}-{number}")
        for name, items in table.items()
        for number, item in enumerate(items)
    ]


def test_every_format_has_a_parser_and_rows_here():
    assert set(PARSERS) == set(OUTPUT_FORMATS) == set(GOOD) == set(BAD)


@pytest.mark.parametrize(("name", "content"), rows(GOOD))
def test_it_parses(name, content):
    parse(content, spec(name))


@pytest.mark.parametrize(("name", "row"), rows(BAD))
def test_it_is_refused_with_the_place_of_the_fault(name, row):
    content, expected = row
    with pytest.raises(Unreadable) as caught:
        parse(content, spec(name))
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
@given(content=st.binary(max_size=400))
@example(content=b"\x00")
@example(content=b"%PDF-" + b"%%EOF")
def test_arbitrary_bytes_parse_or_are_unreadable(name, content):
    try:
        parse(content, spec(name))
    except Unreadable as error:
        str(error).encode()  # what cannot be encoded cannot be stored


@pytest.mark.parametrize("name", ["zip", "xlsx", "docx", "png", "pdf", "yaml", "xml", "toml", "ipynb"])
@given(data=st.data())
def test_damaged_files_parse_or_are_unreadable(name, data):
    content = bytearray(GOOD[name][0])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse(bytes(content), spec(name))
    except Unreadable as error:
        str(error).encode()


@pytest.mark.parametrize(
    ("name", "content", "keys"),
    [
        ("json", b'{"a": 1, "b": 2}', {"a", "b"}),
        ("json", b'[{"a": 1, "b": 2}, {"a": 3}]', {"a"}),
        ("json", b"[1]", None),
        ("jsonl", b'{"a": 1}\n{"a": 2, "b": 1}', {"a"}),
        ("csv", b"a,b\n1,2\n", {"a", "b"}),
        ("tsv", b"a\tb\n", {"a", "b"}),
        ("yaml", b"a: 1\n1: x\n", {"a", "1"}),
        ("toml", b"a = 1\n[b]\n", {"a", "b"}),
        ("xml", b"<r><a><c/></a><b/></r>", {"a", "b"}),
        ("zip", archive(x="1"), {"x"}),
        ("txt", b"a", None),
    ],
)
def test_the_keys_a_shape_is_checked_by(name, content, keys):
    assert parse(content, spec(name)).keys == (frozenset(keys) if keys is not None else None)


def test_rows_of_unequal_length_are_a_fault_of_shape_only():
    parsed = parse(b"a,b\n1,2\n3\n\n4,5,6\n", spec("csv"))
    assert parsed.oddities == (
        "line 3 has 1 fields, the header has 2",
        "line 5 has 3 fields, the header has 2",
    )


def test_rows_become_objects_when_a_schema_wants_them():
    shape = ShapeSpec(source="schema", json_schema={"type": "array"})
    assert parse(b"a,b\n1,2\n", spec("csv", shape=shape)).value == [{"a": "1", "b": "2"}]


def test_a_report_that_must_end_in_json_is_judged_by_its_last_block():
    text = b'```json\n{broken\n```\n\n```json\n{\n  "a": 1\n}\n```\n'
    assert parse(text, spec("md", ends_in_json_block=True)).value == {"a": 1}


def test_a_fault_inside_the_block_is_placed_in_the_file():
    with pytest.raises(Unreadable, match="line 4, column 8"):
        parse(b'# Report\n\n```json\n{"a": 1,}\n```\n', spec("md", ends_in_json_block=True))


def test_a_report_without_the_block_is_unreadable():
    with pytest.raises(Unreadable, match="no fenced JSON block"):
        parse(b"# Report\n", spec("md", ends_in_json_block=True))


def test_dates_are_handed_on_as_text():
    assert parse(b"a: 2024-01-02\n", spec("yaml")).value == {"a": "2024-01-02"}
    assert parse(b"a = 2024-01-02\nb = [07:00:00]\n", spec("toml")).value == {"a": "2024-01-02", "b": ["07:00:00"]}


def test_a_zip_bomb_is_not_unpacked():
    with pytest.raises(Unreadable, match="more than"):
        parse(office("word/document.xml", "<a>" + " " * (40 * 2**20) + "</a>"), spec("docx"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_all_json_that_python_writes_parses(value):
    try:
        content = json.dumps(value).encode()
        json.loads(content)
        "".join(map(str, [value])).encode()
    except UnicodeEncodeError:
        return
    assert parse(content, spec("json")).value == value or any(abs(n) > 2**63 for n in _integers(value))


def _integers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in _integers(item)]
    return [value] if isinstance(value, int) else []
