"""The verifier kit on an agent's files: fenced blocks, JSON, and whatever stands where a file should be."""

import os
from pathlib import Path
from typing import Any

import pytest

from seatrial import verifier_kit as kit


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for / while the kit is tried outside a sandbox."""
    monkeypatch.setenv("KIT_ROOT", str(tmp_path))
    return tmp_path


def problem_of(*call: Any) -> tuple[str, str]:
    function, *arguments = call
    with pytest.raises(kit.OutputProblem) as caught:
        function(*arguments)
    return caught.value.category, str(caught.value)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("no fence", []),
        ("``\nnot a fence\n``", []),
        ("```\na\n```", [("", "a", 2)]),
        ("before\n\n```json\n{}\n```\nafter", [("json", "{}", 4)]),
        ("~~~python\nx = 1\n~~~", [("python", "x = 1", 2)]),
        ("````md\n```json\n{}\n```\n````", [("md", "```json\n{}\n```", 2)]),
        ("~~~\n```\n~~~", [("", "```", 2)]),
        ("```\na\n`````", [("", "a", 2)]),
        ("````\na\n```\nb\n````", [("", "a\n```\nb", 2)]),
        ("```json\n{\n", [("json", "{", 2)]),
        ("```", [("", "", 2)]),
        ("- item\n\n  ```json\n  {}\n  ```", [("json", "  {}", 4)]),
        ("```\na\n```\n```\nb\n```", [("", "a", 2), ("", "b", 5)]),
        ("```json\r\n{}\r\n```\r\n", [("json", "{}", 2)]),
        ("``` JSON title=x\n{}\n```", [("JSON title=x", "{}", 2)]),
    ],
    ids=[
        "empty", "none", "two backticks", "plain", "with text around", "tildes", "nested in a longer fence",
        "backticks in tildes", "longer end", "shorter end inside", "unclosed", "only the fence", "indented", "two",
        "windows lines", "more info",
    ],
)  # fmt: skip
def test_fenced_blocks_are_found(text: str, blocks: list[tuple[str, str, int]]):
    assert kit.fenced_blocks(text) == blocks


def test_code_within_a_line_opens_no_block():
    """CommonMark: what follows opening backticks may not hold a backtick."""
    assert kit.last_json_block('```seatrial score``` was run.\n\n```json\n{"a": 1}\n```\n') == {"a": 1}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"], ids=ascii)
def test_only_line_ends_end_a_line(separator: str):
    """Unicode has more line separators than Markdown; inside a JSON text they are ordinary characters."""
    text = f'a{separator}b\n```json\n{{"a": "b{separator}c"}}\n```\n'
    assert kit.last_json_block(text) == {"a": f"b{separator}c"}
    assert kit.fenced_blocks(text)[0].line == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', {"a": 2}),
        ('```json\n{"a": 1}\n```\n```python\nprint()\n```', {"a": 1}),
        ("```\n[1, 2]\n```", [1, 2]),
        ('```JSON\n{"a": 1}', {"a": 1}),
        ("~~~json\n7\n~~~", 7),
    ],
    ids=["one", "the last", "other languages after it", "unmarked", "unclosed", "tildes"],
)
def test_the_last_json_block_is_the_answer(text: str, value: Any):
    assert kit.last_json_block(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1}', "no fenced JSON block"),
        ("```python\n{}\n```", "no fenced JSON block"),
        ("```\nplain\n```", "no fenced JSON block"),
        ("intro\n```json\n{'a': 1}\n```", "the JSON block at line 3 is not JSON"),
        ('```json\n{"a": 1}\n```\n```json\n```', "the JSON block at line 5 is not JSON"),
        ("```json\n{} {}\n```", "Extra data"),
    ],
)
def test_a_report_without_a_usable_block_is_unparseable(text: str, reason: str):
    category, message = problem_of(kit.last_json_block, text)
    assert category == "unparseable"
    assert reason in message


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[Infinity]", '{"a": -Infinity}', "[" * 100_000, "1" * 5000, "\ufeff{}"],
    ids=lambda t: t[:9],
)
def test_what_is_not_json_is_unparseable_and_names_the_place(text: str):
    category, message = problem_of(kit.parse_json, text, "/workspace/a.json")
    assert category == "unparseable"
    assert message.startswith("/workspace/a.json")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": 1}, "missing keys: b, c"),
        ({}, "missing keys: a, b, c"),
        ([], "found list"),
        (None, "found NoneType"),
        ("abc", "found str"),
    ],
)
def test_missing_keys_are_named(value: Any, reason: str):
    category, message = problem_of(kit.require_keys, value, ["a", "b", "c"])
    assert category == "schema_mismatch"
    assert reason in message


def test_more_keys_than_required_are_fine():
    kit.require_keys({"a": None, "b": 2, "c": 3}, ["a", "b"])


def test_kit_root_moves_every_path(root: Path, monkeypatch: pytest.MonkeyPatch):
    assert kit.path("/workspace/a") == f"{root}/workspace/a"
    monkeypatch.delenv("KIT_ROOT")
    assert kit.path("/workspace/a") == "/workspace/a"


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("é\r\n".encode(), "é\r\n"), (b"\xef\xbb\xbfabc", "abc")],
    ids=["empty", "as it is", "without its byte order mark"],
)
def test_text_is_read_as_it_is(root: Path, data: bytes, text: str):
    (root / "a.txt").write_bytes(data)
    assert kit.read_text("/a.txt") == text


def test_json_is_read_from_a_file(root: Path):
    (root / "a.json").write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert kit.read_json("/a.json") == {"a": [1]}
    (root / "a.json").write_bytes(b"{")
    assert problem_of(kit.read_json, "/a.json")[0] == "unparseable"


def test_a_missing_file_is_no_output(root: Path):
    assert problem_of(kit.read_text, "/a.txt") == ("no_output", "/a.txt: No such file or directory")
    (root / "file").touch()
    assert problem_of(kit.read_text, "/file/a.txt")[0] == "no_output"


def test_a_folder_is_no_output(root: Path):
    (root / "a.txt").mkdir()
    category, message = problem_of(kit.read_text, "/a.txt")
    assert (category, message.startswith("/a.txt: ")) == ("no_output", True)


def test_a_file_that_is_not_utf8_is_unparseable(root: Path):
    (root / "a.txt").write_bytes(b"ab\xff")
    category, message = problem_of(kit.read_text, "/a.txt")
    assert (category, "/a.txt is not UTF-8 text" in message, "at 2" in message) == ("unparseable", True, True)


def test_no_more_than_the_limit_is_read(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kit, "MAX_OUTPUT_BYTES", 4)
    (root / "a.txt").write_bytes(b"1234")
    assert kit.read_text("/a.txt") == "1234"
    (root / "a.txt").write_bytes(b"12345")
    assert problem_of(kit.read_text, "/a.txt") == ("unparseable", "/a.txt has more than 4 bytes")


def test_an_endless_device_is_not_read_to_its_end(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kit, "MAX_OUTPUT_BYTES", 4)
    (root / "a.txt").symlink_to("/dev/zero")
    problem_of(kit.read_text, "/a.txt")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("held_open", [False, True], ids=["nobody writes", "somebody might write"])
def test_a_pipe_neither_blocks_nor_breaks_the_verifier(root: Path, held_open: bool):
    """An agent can leave a pipe, and a process that holds it open, where its answer should be."""
    os.mkfifo(root / "answer.json")
    holder = os.open(root / "answer.json", os.O_RDWR) if held_open else None
    try:
        problem_of(kit.read_json, "/answer.json")
    finally:
        if holder is not None:
            os.close(holder)


def test_reading_leaves_no_descriptor_open(root: Path):
    (root / "a.txt").write_text("x", encoding="utf-8")
    before = len(list(Path("/proc/self/fd").iterdir()))
    kit.read_text("/a.txt")
    problem_of(kit.read_text, "/missing")
    problem_of(kit.read_text, "")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
