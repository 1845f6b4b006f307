"""The verifier kit as a file that strangers copy: nothing but the standard library, old Pythons, exact copies."""

import ast
import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import verifier_kit as kit
from seatrial.verifier_kit import Dimension
from tests.conftest import REPOSITORY

SOURCE = Path(kit.__file__)
COPIES = sorted((REPOSITORY / "examples" / "tasks").glob("*/tests/verifier_kit.py"))


def test_it_imports_only_the_standard_library():
    imported = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import would break in the copy"
            imported.add((node.module or "").partition(".")[0])
    assert imported
    assert imported <= sys.stdlib_module_names


def test_it_is_written_in_the_language_of_python_3_8():
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.parts[-3])
def test_the_examples_use_exact_copies(copy: Path):
    assert copy.read_bytes() == SOURCE.read_bytes()


def test_every_example_brings_a_copy():
    tasks = {path.parent for path in (REPOSITORY / "examples" / "tasks").glob("*/task.toml")}
    assert {copy.parents[1] for copy in COPIES} == tasks


def run_copy(folder: Path, script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run a verifier beside its copy of the kit, with `folder` as the root of everything it reads and writes."""
    (folder / "verifier_kit.py").write_bytes(SOURCE.read_bytes())
    (folder / "verify.py").write_text(script, encoding="utf-8")
    command = [sys.executable, *options, str(folder / "verify.py")]
    return subprocess.run(command, env={"KIT_ROOT": str(folder)}, capture_output=True, check=False)


def test_it_runs_in_an_isolated_interpreter_without_site_packages(tmp_path: Path):
    done = run_copy(
        tmp_path,
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "import verifier_kit as kit\n"
        "kit.run(lambda: [kit.compare('drop', '9400 mV', 9.4, rel=0.005, unit='V'), kit.check('ok', False)])\n",
        "-I",
        "-S",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "logs/verifier/reward.json").read_bytes()) == {"reward": 0.5}


def test_the_example_in_its_docstring_works(tmp_path: Path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/report.md").write_text('The drop:\n\n```json\n{"drop_v": 4.21}\n```\n', encoding="utf-8")
    shown = [line for line in (kit.__doc__ or "").splitlines() if line.startswith("    ")]
    done = run_copy(tmp_path, textwrap.dedent("\n".join(shown)))
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "logs/verifier/reward.json").read_bytes()) == {"reward": 1.0}


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance", "score"),
    [
        (10, 10, {}, 1.0),
        (10.5, 10, {}, 0.0),
        (10.5, 10, {"abs": 0.5}, 1.0),
        (9.5, 10, {"abs": 0.5}, 1.0),
        (10.51, 10, {"abs": 0.5}, 0.0),
        (10.5, 10, {"rel": 0.05}, 1.0),
        (10.6, 10, {"rel": 0.05}, 0.0),
        (-10.5, -10, {"rel": 0.05}, 1.0),
        (10, -10, {"rel": 0.05}, 0.0),
        (10.6, 10, {"rel": 0.05, "abs": 1}, 1.0),
        (11, 10, {"rel": 0.1, "abs": 0.01}, 1.0),
        (11.05, 10, {"rel": 0.1, "abs": 0.1}, 0.0),
        (0.001, 0, {"rel": 0.5}, 0.0),
        (0.001, 0, {"rel": 0.5, "abs": 0.01}, 1.0),
    ],
    ids=str,
)
def test_within_the_wider_tolerance_counts_in_full(
    actual: float, expected: float, tolerance: dict[str, Any], score: float
):
    assert kit.compare("x", actual, expected, **tolerance).score == score


@pytest.mark.parametrize(
    ("actual", "expected", "rel"), [(1.02, 1.0, 0.02), (1.1, 1.0, 0.1), (0.98, 1.0, 0.02), (5.1, 5.0, 0.02)], ids=str
)
def test_an_answer_exactly_at_the_tolerance_is_within_it(actual: float, expected: float, rel: float):
    """On paper 1.02 is within 2 % of 1; the last bit of a float must not decide."""
    assert kit.compare("x", actual, expected, rel=rel).score == 1.0


@pytest.mark.parametrize(
    ("written", "unit", "value"),
    [
        (12.5, "V", 12.5),
        ("12.5", "V", 12.5),
        ("12.5 V", "V", 12.5),
        (" 12.5V ", "V", 12.5),
        ("12.5 mV", "V", 0.0125),
        ("3 kN", "N", 3000),
        ("0.003 MN", "kN", 3),
        ("2 in", "mm", 50.8),
        ("1 ft", "in", 12),
        ("5 µm", "mm", 0.005),
        ("5 um", "mm", 0.005),
        ("4.7 kΩ", "ohm", 4700),
        ("2 bar", "kPa", 200),
        ("1 kg", "g", 1000),
        ("500 mL", "L", 0.5),
        ("2 min", "s", 120),
        ("36 km/h", "m/s", 10),
        ("180 deg", "rad", math.pi),
        ("1 kWh", "J", 3.6e6),
        ("2.35 %", "%", 2.35),
        ("50 %", "", 0.5),
        ("50%", "", 0.5),
        ("0.5", "%", 0.5),
        ("7 widgets", "widgets", 7),
        ("-1.5e3 mA", "A", -1.5),
        ("+.5", "", 0.5),
        ("1.", "", 1),
        (10**15, "", 1e15),
    ],
)
def test_a_quantity_is_converted_to_the_unit_asked_for(written: Any, unit: str, value: float):
    assert kit.quantity(written, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("written", "unit"),
    [
        ("5 A", "V"),
        ("5 m", "s"),
        ("5 mm", "mm2"),
        ("5 apples", "V"),
        ("5 V", ""),
        ("1,000", ""),
        ("0x10", ""),
        ("1e", ""),
    ],
)
def test_a_unit_that_does_not_convert_is_the_agents_problem(written: str, unit: str):
    with pytest.raises(kit.OutputProblem) as caught:
        kit.quantity(written, unit)
    assert caught.value.category == "unit_mismatch"
    dimension = kit.compare("x", written, 5, rel=1, unit=unit)
    assert (dimension.score, dimension.actual) == (0.0, repr(written))
    assert "does not convert" in dimension.evidence


def test_an_unknown_expected_unit_is_the_verifiers_problem():
    with pytest.raises(kit.KitError, match="'furlong' is not in the kit") as caught:
        kit.compare("x", "5 m", 5, unit="furlong")
    assert caught.value.code == "unknown_unit"


NOT_NUMBERS = {
    "none": None,
    "true": True,
    "false": False,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a list": [1],
    "an object": {"value": 1},
    "empty text": "",
    "words": "about 5",
    "a word for nan": "nan",
    "a sign": "-",
    "digits of another script": "٣",
    "overflowing text": "1e400",
    "a long number": "9" * 5000,
    "a huge integer": 10**400,
    "an integer too long to print": 10**5000,
    "a million spaces": " " * 10**6,
    "a long list": list(range(10**5)),
    "a lone surrogate": "\ud800",
    "bytes": b"5",
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_what_is_not_a_number_scores_nothing_and_breaks_nothing(name: str):
    dimension = kit.compare("x", NOT_NUMBERS[name], 5, rel=1e6)
    assert dimension.score == 0.0
    assert "number" in dimension.evidence
    assert len(dimension.evidence) < 200
    assert len(str(dimension.actual)) <= 60
    json.dumps(kit.details_of([dimension]), allow_nan=False).encode()


def test_spaces_around_a_number_do_not_matter_however_many():
    assert kit.quantity(f"{' ' * 10**5}5{' ' * 10**5}V", "V") == 5


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()))
def test_no_answer_of_an_agent_makes_a_comparison_raise(actual: Any):
    dimension = kit.compare("x", actual, 1.5, rel=0.1, unit="V")
    assert dimension.score in (0.0, 1.0)
    json.dumps(kit.details_of([dimension]), allow_nan=False)


@given(
    expected=st.floats(-1e100, 1e100),
    rel=st.floats(0, 1),
    off=st.floats(-2, 2),
)
def test_a_wider_tolerance_never_costs_anything(expected: float, rel: float, off: float):
    actual = expected * (1 + off)
    assert kit.compare("x", actual, expected, rel=rel).score <= kit.compare("x", actual, expected, rel=2 * rel).score


def test_the_evidence_says_what_was_found_and_what_was_expected():
    right = kit.compare("drop", "9.41 V", 9.4, rel=0.005, unit="V", weight=2)
    assert right == kit.Dimension("drop", 1.0, 1.0, 2, "found 9.41, expected 9.4 V ± 0.047", 9.4, 9.41)
    wrong = kit.compare("drop", "lots", 9.4, unit="V")
    assert wrong.evidence == "found 'lots', which is not a number; expected 9.4 V ± 0"


@pytest.mark.parametrize(("passed", "score"), [(True, 1.0), (False, 0.0)])
def test_a_check_is_right_or_wrong(passed: bool, score: float):
    assert kit.check("ok", passed, "seen", weight=3) == kit.Dimension("ok", score, 1.0, 3, "seen")


def test_a_share_counts_the_cases_that_are_right():
    assert kit.share("rows", [], 4) == kit.Dimension("rows", 4, 4, 1.0, "all 4 right")
    some = kit.share("rows", [f"row {number}" for number in range(5)], 8, weight=2)
    assert (some.score, some.max_score, some.weight) == (3, 8, 2)
    assert some.evidence == "5 of 8 wrong: row 0; row 1; row 2"
    assert kit.roll_up([some]) == 0.375


def test_a_share_of_no_cases_is_the_verifiers_problem():
    with pytest.raises(kit.KitError) as caught:
        kit.roll_up([kit.share("rows", [], 0)])
    assert caught.value.code == "bad_max_score"


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


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import verifier_kit as kit

def judge():
    {body}

kit.run(judge)
"""


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kit writes; the folder does not exist yet."""
    monkeypatch.setenv("KIT_ROOT", str(tmp_path))
    return tmp_path / "logs" / "verifier"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def run_script(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """A verifier of its own, as test.sh would start it."""
    script = SCRIPT.format(folder=str(Path(kit.__file__).parent), body=body)
    environment = {"KIT_ROOT": str(tmp_path)}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


MIXED = (Dimension("a", 8, 10, weight=3), Dimension("b", 0.2), Dimension("unused", 0, weight=0))
PERFECT = (Dimension("a", 10, 10, weight=3), Dimension("b", 7, 5))
ZERO = (Dimension("a", 1), Dimension("b", -3))


@pytest.mark.parametrize(
    ("strategy", "mixed", "perfect", "zero"),
    [
        ("weighted_mean", 0.65, 1.0, 0.5),
        ("min", 0.2, 1.0, 0.0),
        ("all_pass", 0.0, 1.0, 0.0),
        ("any_pass", 0.0, 1.0, 1.0),
        ("threshold", 1.0, 1.0, 1.0),
        ("geometric_mean", 0.5657, 1.0, 0.0),
    ],
)
def test_each_strategy_rolls_up_in_its_way(strategy: str, mixed: float, perfect: float, zero: float):
    assert [kit.roll_up(dimensions, strategy) for dimensions in (MIXED, PERFECT, ZERO)] == [mixed, perfect, zero]


def test_nearly_right_is_not_a_pass():
    nearly = [Dimension("a", 0.9999), Dimension("b", 0.9999)]
    assert [kit.roll_up(nearly, strategy) for strategy in ("all_pass", "any_pass")] == [0.0, 0.0]


def test_there_are_six_strategies():
    assert kit.STRATEGIES == ("weighted_mean", "min", "all_pass", "any_pass", "threshold", "geometric_mean")
    assert kit.roll_up(MIXED) == kit.roll_up(MIXED, "weighted_mean")


@pytest.mark.parametrize(
    ("right", "total", "threshold"), [(4, 5, 0.8), (7, 10, 0.7), (1, 10, 0.1), (9, 10, 0.9), (1, 2, 0.5)]
)
def test_a_mean_exactly_at_the_threshold_reaches_it(right: int, total: int, threshold: float):
    """4 of 5 is 0.8, whichever way the float 0.8 happens to be off."""
    cases = [kit.share("cases", ["wrong"] * (total - right), total)]
    assert kit.roll_up(cases, "threshold", threshold=threshold) == 1.0
    assert kit.roll_up(cases, "threshold", threshold=threshold + 0.01) == 0.0


def test_a_reward_is_rounded_to_4_decimals():
    thirds = [Dimension("a", 1), Dimension("b", 1), Dimension("c", 0)]
    assert kit.roll_up(thirds) == 0.6667


@pytest.mark.parametrize("strategy", ["weighted_mean", "min", "geometric_mean"])
def test_rounding_makes_no_full_reward(strategy: str):
    assert kit.roll_up([Dimension("a", 0.99996), Dimension("b", 0.99998)], strategy) == 0.9999
    assert kit.roll_up([Dimension("a", 1.0), Dimension("b", 0.1 + 0.2, 0.3)], strategy) == 1.0
    assert kit.roll_up([Dimension("a", 0.3 - 1e-12, 0.3)], strategy) == 1.0


def test_rounding_reaches_no_threshold():
    assert kit.roll_up([Dimension("a", 0.49996)], "threshold", threshold=0.5) == 0.0


def test_a_tiny_share_does_not_break_the_geometric_mean():
    assert kit.roll_up([Dimension("a", 1e-200, 1e200), Dimension("b", 1)], "geometric_mean") == 0.0


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("unknown_strategy", lambda: kit.roll_up(MIXED, "mean")),
        ("duplicate_dimension", lambda: kit.roll_up([Dimension("a", 1), Dimension("a", 1)])),
        ("unknown_dimension", lambda: kit.roll_up([Dimension("a", 1), Dimension("b", 1)], names=["a"])),
        ("missing_dimension", lambda: kit.roll_up([Dimension("a", 1)], names=iter(["a", "b"]))),
        ("no_dimensions", lambda: kit.roll_up([])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", math.nan)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", True)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", "1")])),  # type: ignore[arg-type]
        ("not_finite", lambda: kit.roll_up([Dimension("a", 10**400)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", 1, math.inf)])),
        ("not_finite", lambda: kit.roll_up([Dimension("a", 1, weight=math.inf)])),
        ("not_finite", lambda: kit.roll_up(MIXED, "threshold", threshold=math.nan)),
        ("bad_max_score", lambda: kit.roll_up([Dimension("a", 1, 0)])),
        ("bad_max_score", lambda: kit.roll_up([Dimension("a", 1, -1)])),
        ("bad_weight", lambda: kit.roll_up([Dimension("a", 1, weight=-1)])),
        ("bad_weight", lambda: kit.roll_up([Dimension("a", 1, weight=0)])),
        ("bad_reward", lambda: kit.write_verdict(1.01)),
        ("bad_reward", lambda: kit.write_verdict(-1e-9)),
        ("not_finite", lambda: kit.write_verdict(math.nan)),
        ("not_finite", lambda: kit.write_verdict(True)),
        ("not_finite", lambda: kit.write_verdict("1")),  # type: ignore[arg-type]
    ],
)
def test_a_verifiers_mistake_has_a_stable_code(logs: Path, code: str, call: Callable[[], object]):
    with pytest.raises(kit.KitError) as caught:
        call()
    assert caught.value.code == code
    assert not logs.exists()


def test_a_complaint_names_the_dimension():
    with pytest.raises(kit.KitError, match=r"'b', 'c': unknown, expected a"):
        kit.roll_up([Dimension(name, 1) for name in "cab"], names=["a"])


def test_details_leave_out_what_nobody_set():
    details = kit.details_of([Dimension("a", 0.5), Dimension("b", 1, 2, 3, "seen", 0, "7")])
    assert details == {
        "a": {"score": 0.5, "max_score": 1.0, "weight": 1.0, "evidence": ""},
        "b": {"score": 1, "max_score": 2, "weight": 3, "evidence": "seen", "expected": 0, "actual": "7"},
    }


def test_a_verdict_is_two_files_and_nothing_else(logs: Path):
    kit.write_verdict(0.93, {"a": {"score": 0.93, "evidence": "within 2 % of 1 Ω"}})
    assert sorted(path.name for path in logs.iterdir()) == ["details.json", "reward.json"]
    assert read(logs / "reward.json") == {"reward": 0.93}
    assert read(logs / "details.json") == {"a": {"score": 0.93, "evidence": "within 2 % of 1 Ω"}}


def test_a_verdict_needs_no_details(logs: Path):
    kit.write_verdict(1)
    assert [path.name for path in logs.iterdir()] == ["reward.json"]


def test_a_verdict_replaces_an_earlier_one_as_a_whole(logs: Path):
    kit.write_verdict(0.25)
    with (logs / "reward.json").open(encoding="utf-8") as earlier:
        kit.write_verdict(1.0)
        assert json.load(earlier) == {"reward": 0.25}
    assert read(logs / "reward.json") == {"reward": 1.0}


def test_there_is_no_reward_unless_the_details_were_written(logs: Path):
    (logs / "details.json").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        kit.write_verdict(1.0, {})
    assert not (logs / "reward.json").exists()


@pytest.mark.parametrize("value", [math.nan, {1, 2}, object()], ids=["nan", "set", "object"])
def test_details_that_are_not_json_leave_nothing_behind(logs: Path, value: Any):
    with pytest.raises((ValueError, TypeError)):
        kit.write_verdict(1.0, {"a": value})
    assert list(logs.iterdir()) == []


def test_half_a_character_pair_in_the_evidence_breaks_nothing(logs: Path):
    kit.write_verdict(0.5, {"a": {"evidence": "found \ud83d"}})
    assert read(logs / "details.json") == {"a": {"evidence": "found ?"}}
    assert read(logs / "reward.json") == {"reward": 0.5}


def test_run_writes_what_the_judge_found(logs: Path):
    kit.run(lambda: MIXED, "threshold", threshold=0.6)
    assert read(logs / "reward.json") == {"reward": 1.0}
    assert read(logs / "details.json") == kit.details_of(MIXED)


def test_run_takes_a_judge_that_yields(logs: Path):
    def judge():
        yield kit.check("first", True)
        raise kit.OutputProblem("unit_mismatch", "in volts, please")

    kit.run(judge)
    assert read(logs / "reward.json") == {"reward": 0.0}
    assert read(logs / "details.json") == {
        "error_taxonomy": [{"category": "unit_mismatch", "description": "in volts, please"}]
    }


def test_a_missing_output_is_a_zero_with_its_reason(tmp_path: Path, logs: Path):
    done = run_script(tmp_path, "return [kit.check('a', kit.read_text('/workspace/a.txt') == 'a')]")
    assert (done.returncode, done.stderr) == (0, "")
    assert read(logs / "reward.json") == {"reward": 0.0}
    assert read(logs / "details.json")["error_taxonomy"][0]["category"] == "no_output"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("return None", "TypeError"),
        ("return []", "KitError"),
        ("return [kit.Dimension('a', float('nan'))]", "KitError"),
        ("return [kit.compare('a', '5 V', 5, unit='volt')]", "KitError"),
    ],
)
def test_a_crash_of_the_judge_is_no_verdict(tmp_path: Path, logs: Path, body: str, error: str):
    logs.mkdir(parents=True)
    for stale in ("reward.json", "reward.txt", "details.json"):
        (logs / stale).write_text("1", encoding="utf-8")
    done = run_script(tmp_path, body)
    assert done.returncode != 0
    assert error in done.stderr.splitlines()[-1]
    assert list(logs.iterdir()) == []


def test_an_earlier_verdict_does_not_survive_even_as_a_link(logs: Path):
    def judge() -> Sequence[Dimension]:
        raise RuntimeError("broken verifier")

    logs.mkdir(parents=True)
    (logs / "reward.json").symlink_to("/nowhere")
    (logs / "reward.txt").write_text("1.0", encoding="utf-8")
    with pytest.raises(RuntimeError, match="broken verifier"):
        kit.run(judge)
    assert list(logs.iterdir()) == []
