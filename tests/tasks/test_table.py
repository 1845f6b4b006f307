"""One TOML table, key by key: right values come out typed, wrong ones are reported and their default is used."""

import datetime as dt
import math

import pytest

from seatrial.tasks.table import Report, Table, given

HUGE = 16**5000  # more digits than Python agrees to print


def table(values, path="agent"):
    return Table(values, path, Report("task.toml"))


def messages(values):
    return [problem.message for problem in values.report.problems]


READERS = {
    "text": lambda values: values.text("key"),
    "number": lambda values: values.number("key"),
    "whole": lambda values: values.whole("key", least=1),
    "flag": lambda values: values.flag("key"),
    "choice": lambda values: values.choice("key", ("mean", "final"), {"average": "mean"}),
    "texts": lambda values: values.texts("key"),
    "variables": lambda values: values.variables("key"),
    "tables": lambda values: values.tables("key"),
}


@pytest.mark.parametrize(
    ("reader", "value", "expected"),
    [
        ("text", "", ""),
        ("text", "hello", "hello"),
        ("number", 5, 5.0),
        ("number", -0.5, -0.5),
        ("whole", 2, 2),
        ("whole", 2.0, 2),
        ("flag", False, False),
        ("choice", "final", "final"),
        ("choice", "FINAL", "final"),
        ("choice", "Average", "mean"),
        ("texts", [], ()),
        ("texts", ["a", "b"], ("a", "b")),
        ("variables", {"A": "x", "N": 3, "F": 0.5, "B": True}, {"A": "x", "N": "3", "F": "0.5", "B": "true"}),
    ],
)
def test_a_right_value_is_returned_in_its_type(reader, value, expected):
    values = table({"key": value})
    found = READERS[reader](values)
    assert (found, type(found)) == (expected, type(expected))
    assert values.report.problems == []


@pytest.mark.parametrize("reader", READERS)
def test_an_absent_key_is_no_problem(reader):
    values = table({})
    assert not READERS[reader](values)
    assert values.report.problems == []


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        ("text", 5, "found 5, expected text"),
        ("text", ["a"], "found ['a'], expected text"),
        ("text", dt.date(2024, 5, 6), "found '2024-05-06', expected text"),
        ("number", "5", "found '5', expected a number"),
        ("number", True, "found True, expected a number"),
        ("number", math.nan, "found nan, expected a number"),
        ("number", -math.inf, "found -inf, expected a number"),
        ("whole", 2.5, "found 2.5, expected a whole number of at least 1"),
        ("whole", 0, "found 0, expected a whole number of at least 1"),
        ("whole", True, "found True, expected a whole number of at least 1"),
        ("whole", math.inf, "found inf, expected a whole number of at least 1"),
        ("flag", "yes", "found 'yes', expected true or false"),
        ("flag", 1, "found 1, expected true or false"),
        ("choice", "median", "found 'median', expected one of mean, final"),
        ("choice", ["mean"], "found ['mean'], expected one of mean, final"),
        ("texts", "a", "found 'a', expected a list of texts"),
        ("texts", ["a", 1], "found ['a', 1], expected a list of texts"),
        ("variables", "A=1", "found 'A=1', expected a table"),
        ("variables", {"A": ["x"]}, "found ['x'], expected text"),
        ("tables", {"name": "a"}, "found {'name': 'a'}, expected a list of tables"),
        ("tables", [1], "found [1], expected a list of tables"),
    ],
)
def test_a_wrong_value_is_reported_and_left_out(reader, value, message):
    values = table({"key": value})
    assert not READERS[reader](values)
    assert messages(values) == [message]


@pytest.mark.parametrize("reader", ["text", "number", "whole", "flag", "choice", "texts"])
def test_an_integer_too_large_to_print_is_reported_too(reader):
    values = table({"key": HUGE})
    READERS[reader](values)
    assert [problem.key for problem in values.report.problems] == ["agent.key"]


def test_an_environment_variable_too_large_to_print_is_reported():
    values = table({"key": {"A": HUGE, "B": "kept"}})
    assert values.variables("key") == {"B": "kept"}
    assert [problem.key for problem in values.report.problems] == ["agent.key.A"]


def test_a_problem_names_file_key_finding_and_fix():
    values = table({"timeout_sec": "soon"})
    values.number("timeout_sec", above=0)
    (problem,) = values.report.problems
    assert str(problem) == "task.toml: agent.timeout_sec: found 'soon', expected a number above 0"
    assert (problem.code, problem.severity) == ("bad-value", "error")
    assert problem.fix == "set `agent.timeout_sec` to a number above 0"


def test_a_long_value_is_shown_in_part():
    values = table({"key": ["x" * 500]})
    values.text("key")
    assert messages(values) == [f"found ['{'x' * 58}…, expected text"]


@pytest.mark.parametrize(
    ("bounds", "value", "accepted"),
    [
        ({"above": 0}, 0, False),
        ({"above": 0}, 0.001, True),
        ({"least": 0}, 0, True),
        ({"least": 0}, -0.001, False),
    ],
    ids=["not above 0", "above 0", "at least 0", "below 0"],
)
def test_a_number_may_have_a_bound(bounds, value, accepted):
    assert (table({"key": value}).number("key", **bounds) is not None) == accepted


def test_an_unknown_key_is_kept_under_its_full_name():
    values = table({"max_turns": 5, "odd key": {"since": dt.date(2024, 5, 6)}})
    values.done()
    assert values.report.extra == {"agent.max_turns": 5, 'agent."odd key"': {"since": "2024-05-06"}}
    assert {(p.code, p.severity) for p in values.report.problems} == {("unknown-key", "warning")}


def test_unknown_keys_are_reported_in_the_order_of_the_file():
    names = ["zeta", "beta", "eta", "alpha", "iota", "gamma", "theta"]
    values = table(dict.fromkeys(names, 1), path="")
    values.done()
    assert [problem.key for problem in values.report.problems] == names
    assert list(values.report.extra) == names


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("time_out_sec", "; did you mean `timeout_sec`?"),
        ("timeoutsec", "; did you mean `timeout_sec`?"),
        ("colour", ""),
    ],
)
def test_an_unknown_key_close_to_a_known_one_gets_a_hint(written, hint):
    values = table({written: 5})
    values.number("timeout_sec")
    values.done()
    assert messages(values) == [f"unknown key, kept but not used{hint}"]


def test_no_hint_points_to_a_key_that_is_there_already():
    values = table({"timeout_sec": 5, "timeout_secs": 6})
    values.number("timeout_sec")
    values.done()
    assert messages(values) == ["unknown key, kept but not used"]


def test_a_peeked_key_stays_unknown():
    values = table({"network": "bridge"})
    assert values.peek("network") == "bridge"
    values.done()
    assert values.report.extra == {"agent.network": "bridge"}


def test_keys_of_tables_within_are_named_in_full():
    values = table({"steps": [{}, {"name": 1}], "env": {"A": []}}, path="")
    values.tables("steps")[1].text("name")
    values.variables("env")
    assert [problem.key for problem in values.report.problems] == ["steps[1].name", "env.A"]


def test_read_tells_an_empty_table_from_an_absent_one():
    values = table({"there": {}})
    assert values.read("there", lambda within: list(within.names())) == []
    assert values.read("absent", lambda within: list(within.names())) is None


def test_given_keeps_false_and_empty_values():
    assert given(a=None, b=False, c=0, d=(), e="") == {"b": False, "c": 0, "d": (), "e": ""}
