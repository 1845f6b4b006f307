"""Expected values in tests: found where something is compared with them, and nowhere else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.check.reading.twin_values import expected_values, values_of
from tests.check.trying import accepted

ANSWER = values_of([accepted("/app/a.json", '{"load": 4.2, "count": 17, "kind": "steel", "ok": true, "one": 1}')])


def found(file: str, text: str) -> list[str]:
    content = text.encode()
    return [content[each.start : each.end].decode() for each in expected_values(file, content, ANSWER)]


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("assert a['load'] == 4.2", ["4.2"]),
        ("assert abs(a - 4.2004) < 0.1", ["4.2004"]),
        ("assert a == approx(4.2)", []),
        ("assert isclose(a, 4.2, rel_tol=0.1)", ["4.2"]),
        ("EXPECTED = {'load': 4.2, 'rows': [17]}", ["4.2", "17"]),
        ("exact('kind', a['kind'], 'steel')", ["'steel'"]),
        ("ä = 'ö'; assert a == 17", ["17"]),
        ("assert a < 17", []),
        ("limit = 17", []),
        ("if a == 17:\n    pass", []),
        ("assert a == 17 or b", []),
        ("assert a in (17, 18)", []),
        ("assert a == True and b == 1", []),
        ("check(17)", []),
        ("broken(", []),
    ],
)
def test_python(text: str, literals: list[str]) -> None:
    assert found("t.py", text) == literals


def test_json_and_shell() -> None:
    assert found("truth.json", '{"steel": 17, "kind": "steel", "x": [4.2, 5]}') == ["17", '"steel"', "4.2"]
    assert found("test.sh", '# grep steel\ngrep -qx steel /app/a\n[ "$n" = "17" ]\necho 17\n') == ["steel", "17"]
    assert found("data.csv", "17,steel") == []


def test_values_of_texts() -> None:
    values = values_of([accepted("/app/a.md", 'The load is 12.5.\n```json\n{"kind": "oak wood"}\n```\n')])
    assert (values.has(-12.5), values.has("oak wood"), values.has("load"), values.has(1)) == (True, True, False, False)
    assert values_of([accepted("/app/a.txt", "right\n")]).has("right")


@given(st.text(max_size=40), st.sampled_from(["a.py", "a.json", "a.sh"]))
@settings(max_examples=60, deadline=None)
def test_any_file_is_looked_through(text: str, file: str) -> None:
    content = f'{text}\n[ a = 17 ]\n"x": [17, 4.2]\nassert a == 17'.encode()
    for each in expected_values(file, content, ANSWER):
        assert content[each.start : each.end].strip(b"'\"") in (b"17", b"4.2", b"steel")
