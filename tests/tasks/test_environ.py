"""Variables of a task: literal, or a template that is the whole value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.tasks.environ import declared_tables, missing_in, resolve_variables
from seatrial.tasks.load import load_task

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("plain", "plain"),
        ("${A}", "host"),
        ("${A:-default}", "host"),
        ("${B:-default}", "default"),
        ("${B:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", "default"),
        ("${B:-a}b}", "a}b"),
        ("${B:-two\nlines}", "two\nlines"),
        ("pre${A}", "pre${A}"),
        ("${A}/post", "${A}/post"),
        ("$A", "$A"),
        ("${}", "${}"),
        ("${1A}", "${1A}"),
        ("${A-default}", "${A-default}"),
    ],
)
def test_only_a_whole_value_is_a_template(value, resolved):
    assert resolve_variables({"X": value}, {"A": "host", "EMPTY": ""}) == {"X": resolved}


def test_what_is_missing_is_named_all_at_once():
    with pytest.raises(UsageError, match="not set on this machine: A, B; export them"):
        resolve_variables({"X": "${A}", "Y": "${B}", "Z": "${C:-c}", "W": "w"}, {})


def test_a_resolved_value_is_not_resolved_again():
    assert resolve_variables({"X": "${A}"}, {"A": "${B}"}) == {"X": "${B}"}


def missing(task, host):
    return [name for table in declared_tables(task.config) for name in missing_in(table, host)]


def test_every_table_that_running_would_resolve_is_looked_at(make_task):
    toml = """
    [environment.env]
    A = "${ENVIRONMENT}"
    [verifier.env]
    B = "${VERIFIER}"
    C = "${FINE:-yes}"
    [verifier.environment.env]
    D = "${MACHINE}"
    """
    task = load_task(make_task(toml=toml))
    assert missing(task, {}) == ["ENVIRONMENT", "VERIFIER", "MACHINE"]
    assert missing(task, {"ENVIRONMENT": "", "VERIFIER": "", "MACHINE": ""}) == []


def test_steps_have_tables_of_their_own(make_task):
    toml = '[verifier.env]\nA = "${ROOT}"\n[[steps]]\nname = "one"\n[steps.verifier.env]\nB = "${STEP}"\n'
    task = load_task(make_task(toml=toml, files={"steps/one/instruction.md": "Do it.\n"}))
    assert "STEP" in missing(task, {})


@given(table=st.dictionaries(NAMES, st.text(max_size=30)), host=st.dictionaries(NAMES, st.text(max_size=10)))
def test_any_text_is_a_value(table, host):
    try:
        resolved = resolve_variables(table, host)
    except UsageError as error:
        assert "not set on this machine" in str(error)
    else:
        assert resolved.keys() == table.keys()


@given(name=NAMES, value=st.text(max_size=20), default=st.text(max_size=20))
def test_a_template_takes_what_the_host_has(name, value, default):
    assert resolve_variables({"X": f"${{{name}}}"}, {name: value}) == {"X": value}
    assert resolve_variables({"X": f"${{{name}:-{default}}}"}, {name: value}) == {"X": value or default}
    assert resolve_variables({"X": f"${{{name}:-{default}}}"}, {}) == {"X": default}
