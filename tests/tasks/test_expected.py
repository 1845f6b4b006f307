"""What a task expects: path, format and shape of its output, in the order of who may decide them."""

import pytest

from seatrial.model.output import OutputSpec, ShapeSpec, VerifierSpec
from seatrial.model.task import OutputDeclaration, TaskConfig, VerifierPhaseSpec
from seatrial.tasks.expected import read_schema, resolve_output, resolve_verifier
from seatrial.tasks.table import Report

ASKED = "Write the answer to `/workspace/asked.json`."


def resolve(instruction="", *, schema=None, phase=None, **output):
    config = TaskConfig(output=OutputDeclaration(**output))
    return resolve_output(config, phase or VerifierPhaseSpec(), instruction, "/workspace", schema)


def keys_of(instruction):
    return resolve(instruction).shape.required_keys


def test_a_path_in_the_output_table_beats_the_instruction():
    output = resolve(ASKED, path="/workspace/declared.csv")
    assert (output.path, output.format, output.source) == ("/workspace/declared.csv", "csv", "declared")
    assert output.reason == "task.toml declares it"
    assert [candidate.path for candidate in output.candidates] == ["/workspace/asked.json"]


def test_the_verifiers_own_path_beats_the_output_table():
    phase = VerifierPhaseSpec(expected_output_path="/data/verifier.md")
    assert resolve(phase=phase, path="/workspace/declared.csv").path == "/data/verifier.md"


def test_a_relative_path_is_below_the_workdir():
    assert resolve(path="out/answer.json").path == "/workspace/out/answer.json"


def test_an_asked_path_says_of_how_many_it_is_the_last():
    assert resolve(ASKED).reason == "the instruction asks for it"
    text = "Write /workspace/a.json. Write /workspace/b.json. See /workspace/c.json."
    assert resolve(text).reason == "the instruction asks for it; the last of 2 such paths"
    assert resolve("Here is /workspace/a.json").reason == "the instruction mentions it without asking for it"


def test_nothing_declared_and_nothing_asked_is_an_output_without_a_path():
    output = resolve("Read /workspace/in.csv.")
    assert (output.path, output.source, output.shape) == (None, "none", ShapeSpec())
    assert output.reason == "no output path is declared or named in the instruction"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.JSON", "json"),
        ("a.yml", "yaml"),
        ("a.markdown", "md"),
        ("a.ndjson", "jsonl"),
        ("a.tar.gz", None),
        ("a", None),
    ],
)
def test_the_format_follows_from_the_suffix(path, expected):
    assert resolve(path=path).format == expected


def test_a_declared_format_beats_the_suffix():
    assert resolve(path="answer.txt", format="json").format == "json"


def test_the_size_limit_is_the_declared_one():
    assert resolve(path="a.json", max_bytes=10).max_bytes == 10
    assert resolve(path="a.json").max_bytes == OutputSpec().max_bytes


EXAMPLE = """Write `/workspace/out.json` in this form:

```json
{"voltage": <number>, "phases": [{"name": "L1"}], "note": "a \\"quoted\\": word", "ok": true}
```
"""


def test_the_keys_of_an_example_need_no_valid_json():
    assert resolve(EXAMPLE).shape == ShapeSpec(source="example", required_keys=("voltage", "phases", "note", "ok"))


@pytest.mark.parametrize(
    ("example", "keys"),
    [
        ('```json\n{"a": 1, "b": {"c": 2}}\n```', ("a", "b")),
        ('```\n{"a": 1}\n```', ("a",)),
        ('~~~JSON\n[{"a": 1}, {"b": 2}]\n~~~', ("a",)),
        ('```json\n{\n  "a": ...,  // the voltage\n  "b" : <text>\n}\n```', ("a", "b")),
        ('```json\n{"a": "x: {\\"y\\": 1}", "a": 2}\n```', ("a",)),
        ('```json\n{"a": 1, "b": "unclosed\n```', ("a", "b")),
        ('```json\n["a", "b"]\n```', ()),
        ("```json\n```", ()),
        ('```python\n{"a": 1}\n```', ()),
        ('`{"a": 1}`', ()),
    ],
    ids=["nested", "unmarked", "list", "comments", "repeated", "unclosed", "texts", "empty", "python", "inline"],
)
def test_example_keys_are_those_of_the_first_object(example, keys):
    assert keys_of(f"Write `/workspace/out.json`:\n\n{example}\n") == keys


def block(key):
    return f'\n```json\n{{"{key}": 1}}\n```\n'


def test_of_several_examples_the_one_that_the_output_introduces_counts():
    far = "More about something else.\n" * 12
    text = f"`/workspace/in.json` holds:\n{block('x')}Write `/workspace/out.json`:\n{block('y')}{far}{block('z')}"
    assert resolve(text).shape.required_keys == ("y",)
    assert resolve(text, path="other.json").shape.required_keys == ("z",)


def test_windows_line_ends_change_no_keys():
    assert keys_of(EXAMPLE.replace("\n", "\r\n")) == ("voltage", "phases", "note", "ok")


@pytest.mark.parametrize(
    ("path", "ends_in_json", "keys"),
    [
        ("r.md", True, ("a",)),
        ("r.json", False, ("a",)),
        ("r.jsonl", False, ("a",)),
        ("r.csv", False, ()),
        ("r", False, ()),
    ],
)
def test_an_example_speaks_for_formats_with_keys_only(path, ends_in_json, keys):
    output = resolve(f'Write /workspace/{path}\n\n```json\n{{"a": 1}}\n```\n')
    assert (output.ends_in_json_block, output.shape.required_keys) == (ends_in_json, keys)


def test_a_schema_beats_required_keys_which_beat_the_example():
    schema = {"type": "object"}
    declared = resolve(EXAMPLE, schema=schema, required_keys=("b",)).shape
    assert declared == ShapeSpec(source="schema", json_schema=schema)
    assert resolve(EXAMPLE, required_keys=("b",)).shape == ShapeSpec(source="required_keys", required_keys=("b",))


def test_the_verifiers_schema_gate_beats_that_of_the_output_table():
    assert resolve(ASKED).shape.gate == "report"
    assert resolve(ASKED, schema_gate="zero").shape.gate == "zero"
    assert resolve(ASKED, phase=VerifierPhaseSpec(schema_gate="report"), schema_gate="zero").shape.gate == "report"


def test_the_verifier_spec_names_a_script_and_a_path_even_when_there_is_none():
    phase = VerifierPhaseSpec(reward_path="/r/score.json", details_path="/r/why.json")
    assert resolve_verifier(phase, resolve(ASKED), "steps/a/tests/test.sh") == VerifierSpec(
        script="steps/a/tests/test.sh",
        expected_output_path="/workspace/asked.json",
        reward_path="/r/score.json",
        details_path="/r/why.json",
    )
    assert resolve_verifier(VerifierPhaseSpec(), OutputSpec(), None) == VerifierSpec(
        script="tests/test.sh",
        expected_output_path="",
        reward_path="/logs/verifier/reward.json",
        details_path="/logs/verifier/details.json",
    )


def schema_in(folder, name):
    """The schema a task declares as `name`, and the problems of reading it."""
    report = Report("task.toml")
    return read_schema(folder, name, report), [(p.code, p.key, p.message) for p in report.problems]


def test_no_declared_schema_is_none(tmp_path):
    assert schema_in(tmp_path, None) == (None, [])


def test_a_schema_is_read_from_the_task(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/schema.json").write_text('{"type": "object"}')
    assert schema_in(tmp_path, "tests/schema.json") == ({"type": "object"}, [])


@pytest.mark.parametrize("name", ["../schema.json", "/etc/passwd", "tests/../../schema.json", "link.json"])
def test_a_schema_outside_the_task_is_refused(tmp_path, name):
    root = tmp_path / "task"
    root.mkdir()
    (tmp_path / "schema.json").write_text("{}")
    (root / "link.json").symlink_to("../schema.json")
    message = f"found {name!r}, expected a file inside the task folder"
    assert schema_in(root, name) == (None, [("bad-value", "output.schema", message)])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"{", "unexpected end of data"),
        (b"\xff", "expected UTF-8 text"),
        (b"[]", "should be a valid dictionary"),
        (b'{"a": 1e999}', ""),
        (b"[" * 5000, ""),
        (b" " * (2**20 + 1), "it has 1,048,577 bytes, expected 1,048,576 at most"),
    ],
    ids=["missing", "not JSON", "not UTF-8", "no object", "infinite", "deep", "too large"],
)
def test_a_schema_that_cannot_be_used_is_an_error_of_the_task(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "s.json").write_bytes(content)
    schema, problems = schema_in(tmp_path, "s.json")
    assert (schema, [(code, key) for code, key, _ in problems]) == (None, [("bad-schema", "output.schema")])
    assert problems[0][2].startswith("s.json cannot be used: ")
    assert reason in problems[0][2]


@pytest.mark.parametrize("name", ["a\0b.json", "loop.json", "x" * 5000], ids=["NUL", "loop", "long"])
def test_a_schema_name_that_no_file_can_have_is_an_error_of_the_task(tmp_path, name):
    (tmp_path / "loop.json").symlink_to("loop.json")
    schema, problems = schema_in(tmp_path, name)
    assert (schema, [key for _, key, _ in problems]) == (None, ["output.schema"])
