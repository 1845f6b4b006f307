"""Variables of a task: literal, or a template that is the whole value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.tasks.load import load_task
from seatrial.tasks.variables import (
    allowed_variables,
    declared_tables,
    denied_defaults,
    for_session,
    is_provider_key,
    keys_of,
    missing_in,
    resolve_variables,
    task_variables,
    verifier_tables,
    why_never,
    without_judges,
)

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
    tables = (*declared_tables(task.config), *verifier_tables(task.config))
    return [name for table in tables for name in missing_in(table, host)]


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


HOST = {"DATA_URL": "https://data", "HOME": "/root", "OPENAI_API_KEY": "secret", "COPY": "sk-proj-abcdefghijklmnop"}


def test_a_task_has_what_was_allowed_and_nothing_else():
    table = {"A": "${DATA_URL}", "B": "${HOME:-none}", "C": "literal", "D": "${UNSET:-d}"}
    assert task_variables(table, ["DATA_URL"], HOST) == {"A": "https://data", "B": "none", "C": "literal", "D": "d"}


def test_what_it_cannot_do_without_is_named_with_the_way_to_allow_it():
    with pytest.raises(UsageError, match=r"not allowed: HOME, UNSET; allow them by name \(--allow-env NAME"):
        task_variables(
            {"A": "${HOME}", "B": "${UNSET}", "C": "${HOME}", "D": "${DATA_URL}"}, ["DATA_URL", "UNSET"], HOST
        )


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY"),
        *("GOOGLE_API_KEY", "OPENROUTER_API_KEY", "openai_api_key", "OPENAI_ADMIN_KEY", "COPY"),
    ],
)
def test_a_providers_key_is_never_a_tasks(name):
    assert name in (why_never(name, HOST) or "")
    assert allowed_variables([name], {**HOST, name: HOST.get(name, "x")}) == {}
    assert task_variables({"A": f"${{{name}:-none}}"}, [name], HOST) == {"A": "none"}


@pytest.mark.parametrize("name", ["DATA_URL", "WEATHER_API_KEY", "HF_TOKEN", "MONKEY", "OPENAI_MODEL", "HOME"])
def test_other_variables_are_for_the_user_to_give(name):
    assert why_never(name, HOST) is None


def test_the_key_of_the_jobs_own_upstream_is_one():
    keys = keys_of("https://models.example/v1,key=OUR_SECRET,retries=2")
    assert keys == {"OUR_SECRET"}
    assert why_never("OUR_SECRET", HOST, keys)
    assert keys_of("cache:/x,openai:https://y/v1,key=A") == {"A"}
    assert keys_of(None) == frozenset()


def test_defaults_that_stand_in_for_something_set_here_are_told():
    tables = [{"A": "${HOME:-x}", "B": "${UNSET:-y}", "C": "${DATA_URL:-z}", "D": "${HOME}"}]
    assert list(denied_defaults(tables, ["DATA_URL"], HOST)) == ["HOME"]


@given(st.dictionaries(NAMES, st.text(max_size=10)), st.lists(NAMES), st.text(max_size=20))
def test_no_value_of_the_host_that_was_not_allowed_reaches_a_task(host, allowed, text):
    host = {name: f"<{name}:{value}>" for name, value in host.items()}
    table = {"A": text, **{name: f"${{{name}:-default}}" for name in host}}
    resolved = task_variables({name: f"{value}" for name, value in table.items()}, allowed, host)
    for name, value in host.items():
        if name != "A" and resolved[name] != "default":
            assert name in allowed
            assert resolved[name] == value


SESSION = {"LLM_API_KEY": "st-own", "LLM_BASE_URL": "http://here/v1", "ANTHROPIC_BASE_URL": "http://here"}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("${OPENAI_API_KEY}", "st-own"),
        ("${OPENROUTER_API_KEY:-}", "st-own"),
        ("${VLM_API_KEY}", "st-own"),
        ("${MY_JUDGE_API_KEY:-x}", "st-own"),
        ("${GRADER_MODEL_KEY}", "st-own"),
        ("${AZURE_OPENAI_ENDPOINT}", "http://here/v1"),
        ("${JUDGE_BASE_URL:-https://x/v1}", "http://here/v1"),
        ("${ANTHROPIC_BASE_URL}", "http://here"),
        ("${JUDGE_MODEL:-gpt-4o}", "${JUDGE_MODEL:-gpt-4o}"),
        ("${TAVILY_API_KEY}", "${TAVILY_API_KEY}"),
        ("${GITHUB_TOKEN}", "${GITHUB_TOKEN}"),
        ("${DATA_URL}", "${DATA_URL}"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("sk-${OPENAI_API_KEY}", "sk-${OPENAI_API_KEY}"),
    ],
)
def test_keys_and_addresses_of_models_are_the_sessions_and_nothing_else_is(value, filled):
    assert for_session({"NAME": value}, SESSION) == {"NAME": filled}
    assert ("NAME" in without_judges({"NAME": value})) == (value == filled)


def test_only_a_providers_key_is_one():
    assert [name for name in ("OPENAI_API_KEY", "VLM_API_KEY", "OPENAI_BASE_URL") if is_provider_key(name)] == [
        "OPENAI_API_KEY"
    ]
