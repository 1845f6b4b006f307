"""The quirks of task.toml: versions, older spellings, loose types, refused values. test_toml_full.py has every key."""

import pytest

from seatrial.model.config import Author, StepSpec, TaskConfig
from seatrial.tasks.toml import read_config


def config_of(text):
    config, report = read_config(text)
    assert config is not None, report.problems
    return config


def complaints(text, severity="error"):
    """`key: message` of every problem of that severity."""
    return [f"{p.key}: {p.message}" for p in read_config(text)[1].problems if p.severity == severity]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('version = "1.0"', "1.0"),
        ('schema_version = "1.1"', "1.1"),
        ('schema_version = "1.2"', "1.2"),
        ('schema_version = "1.3"', "1.3"),
        ('schema_version = "1.4"', "1.4"),
        ('version = "2.0"', "2.0"),
        ("version = 1.0", "1.0"),
        ("schema_version = 1", "1"),
        ('version = "1.1"\nschema_version = "1.1"', "1.1"),
        ("", "1.4"),
    ],
)
def test_wild_2_any_version_under_either_name_is_accepted(text, version):
    config, report = read_config(text)
    assert (config, report.problems) == (TaskConfig(schema_version=version), [])


def test_wild_2_of_two_different_versions_schema_version_counts_with_a_note():
    text = 'version = "1.0"\nschema_version = "1.1"'
    assert config_of(text).schema_version == "1.1"
    assert complaints(text, "note") == ["version: schema_version is 1.1 and version is 1.0; schema_version counts"]


@pytest.mark.parametrize("value", ["{a = 1}", "[1]", "true", f"0x{'f' * 4000}"], ids=["table", "list", "flag", "huge"])
def test_a_version_that_is_neither_text_nor_a_number_is_refused(value):
    (problem,) = read_config(f"version = {value}")[1].problems
    assert (problem.severity, problem.key) == ("error", "version")


def test_wild_2_whole_numbers_serve_as_floats_and_the_reverse():
    config = config_of("[agent]\ntimeout_sec = 60\n[environment]\ncpus = 1.0\nmemory_mb = 2048.0\ngpus = 0.0")
    assert (config.agent.timeout_sec, config.environment.cpus) == (60.0, 1.0)
    assert (config.environment.memory_mb, config.environment.gpus) == (2048, 0)


def test_wild_1_unknown_keys_of_every_table_are_kept_and_reported():
    text = """
    slug = "pump"
    [tools]
    shell = true
    [task]
    workstream = "ops"
    [agent]
    max_turns = 5
    [verifier]
    framework = "pytest"
    [verifier.environment]
    base_image = "x"
    [environment]
    extensions = ["a"]
    [environment.healthcheck]
    command = "true"
    colour = "red"
    [solution]
    timeout_sec = 5
    [[steps]]
    name = "one"
    dependencies = ["zero"]
    inherit_prior_session = true
    [[verifier.collect]]
    command = "true"
    shell = "bash"
    """
    config, report = read_config(text)
    assert config is not None
    assert config.extra == {
        "slug": "pump",
        "tools": {"shell": True},
        "task.workstream": "ops",
        "agent.max_turns": 5,
        "verifier.framework": "pytest",
        "verifier.environment.base_image": "x",
        "environment.extensions": ["a"],
        "environment.healthcheck.colour": "red",
        "solution.timeout_sec": 5,
        "steps[0].dependencies": ["zero"],
        "steps[0].inherit_prior_session": True,
        "verifier.collect[0].shell": "bash",
    }
    assert {problem.key for problem in report.problems} == set(config.extra)
    assert {problem.severity for problem in report.problems} == {"warning"}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[enviroment]\ncpus = 1", "did you mean `environment`?"),
        ("[environment]\nmemory_md = 1", "did you mean `memory_mb`?"),
        ("[verifier]\ntimout_sec = 1", "did you mean `timeout_sec`?"),
        ('[verifier]\nreward-path = "x"', "did you mean `reward_path`?"),
    ],
    ids=["environment", "memory_mb", "timeout_sec", "reward_path"],
)
def test_a_misspelt_key_is_told_what_it_was_meant_to_be(text, hint):
    (complaint,) = complaints(text, "warning")
    assert complaint.endswith(hint)


@pytest.mark.parametrize(
    ("table", "alias"),
    [("agent", "timeout"), ("agent", "timeout_seconds"), ("verifier", "timeout_seconds")],
)
def test_older_names_of_a_timeout_are_read_with_a_note(table, alias):
    text = f"[{table}]\n{alias} = 42"
    assert getattr(config_of(text), table).timeout_sec == 42.0
    assert complaints(text, "note") == [f"{table}.{alias}: read as `timeout_sec`"]


def test_an_older_name_beside_the_current_one_is_merely_unknown():
    text = "[agent]\ntimeout_sec = 5\ntimeout = 6"
    assert config_of(text).agent.timeout_sec == 5.0
    assert config_of(text).extra == {"agent.timeout": 6}


@pytest.mark.parametrize("name", ["pump", "acme/pump"])
def test_wild_4_a_task_name_needs_no_organisation(name):
    assert config_of(f'[task]\nname = "{name}"').package.name == name


def test_wild_4_authors_are_tables_or_texts():
    text = '[task]\nauthors = [{name = "Ada", email = "a@b.c"}, "Bo <bo@b.c>", {name = "Cy", url = "x"}]'
    assert config_of(text).package.authors == (
        Author(name="Ada", email="a@b.c"),
        Author(name="Bo <bo@b.c>"),
        Author(name="Cy"),
    )


@pytest.mark.parametrize("value", ['"Ada"', "[1]", '[{email = "a@b.c"}]'])
def test_authors_without_a_name_are_named_and_stop_nothing(value):
    config, report = read_config(f"[task]\nauthors = {value}")
    (problem,) = report.problems
    assert (config is not None, problem.severity, problem.key) == (True, "warning", "task.authors")
    assert problem.message.startswith("found ")


def test_what_only_describes_a_task_is_no_reason_not_to_run_it():
    _, report = read_config('metadata = "none"\n[task]\nkeywords = "pump"\ndescription = 5\nname = ["a"]\n')
    found = {problem.key: problem.severity for problem in report.problems}
    assert found == dict.fromkeys(("metadata", "task.keywords", "task.description", "task.name"), "warning")


def test_wild_8_a_step_may_have_unknown_keys_and_a_reward_of_either_form():
    config = config_of(
        '[[steps]]\nname = "a"\nmin_reward = 1\nweight = 2\n[[steps]]\nname = "b"\nmin_reward = {speed = 0.5}'
    )
    assert config.steps == (StepSpec(name="a", min_reward=1.0), StepSpec(name="b", min_reward={"speed": 0.5}))


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [("id", "1_core", "1_core"), ("dir", "steps/2_more/", "2_more"), ("path", "steps/last", "last")],
)
def test_a_step_without_a_name_is_named_by_its_folder(key, value, name):
    text = f'[[steps]]\n{key} = "{value}"'
    assert config_of(text).steps[0].name == name
    assert complaints(text, "note") == [f"steps[0].{key}: read as the step's `name`"]


@pytest.mark.parametrize("name", ["''", "'..'", "'a/b'", "3"])
def test_a_step_name_that_is_no_folder_name_is_refused(name):
    assert "the name of a folder under steps/" in complaints(f"[[steps]]\nname = {name}")[-1]


@pytest.mark.parametrize("other", ["BUILD", "ｂｕｉｌｄ", "build"])  # noqa: RUF001 - wide letters are the point
def test_step_names_that_differ_only_in_case_or_unicode_form_are_refused(other):
    assert complaints(f'[[steps]]\nname = "build"\n[[steps]]\nname = "{other}"') == [
        f"steps[1].name: found '{other}', expected a name that differs from 'build' by more than case"
    ]


def test_wild_15_a_verifier_with_its_own_environment_is_separate():
    config = config_of('[verifier.environment]\ndocker_image = "judge:1"\nmemory = "1g"')
    assert config.verifier.environment_mode == "separate"
    assert config.verifier.environment is not None
    assert (config.verifier.environment.docker_image, config.verifier.environment.memory_mb) == ("judge:1", 1024)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('"../secret"', "a path without `..`"),
        ('"/workspace/../etc"', "a path without `..`"),
        ("5", "text"),
        ("{}", "a path without `..`"),
        ('{source = "/a", destination = "/etc"}', "a relative path without `..`, other than manifest.json"),
        ('{source = "/a", destination = "x/../../y"}', "a relative path without `..`, other than manifest.json"),
        ('{source = "/a", destination = "manifest.json"}', "a relative path without `..`, other than manifest.json"),
    ],
)
def test_an_artifact_that_leads_elsewhere_is_refused(entry, expected):
    found = complaints(f'artifacts = ["/workspace/a..b", {entry}]')
    assert found[0].startswith("artifacts[1].")
    assert found[0].endswith(f"expected {expected}")
    assert all(complaint.startswith("artifacts[1].") for complaint in found)


def test_a_collect_hook_without_a_command_is_refused():
    assert complaints("[[verifier.collect]]\ntimeout_sec = 5") == [
        "verifier.collect[0].command: found None, expected a command"
    ]


def test_wild_12_an_unset_variable_is_no_problem_of_loading():
    config, report = read_config('[environment.env]\nKEY = "${SEATRIAL_UNSET}"')
    assert report.problems == []
    assert config is not None
    assert config.environment.env == {"KEY": "${SEATRIAL_UNSET}"}


def test_all_problems_of_a_file_are_found_in_one_reading():
    text = """
    source = 5
    artifacts = "x"
    steps = "none"
    [agent]
    timeout_sec = 0
    user = 1.5
    [verifier]
    environment_mode = "both"
    [environment]
    cpus = "two"
    memory_mb = -1
    [output]
    max_bytes = 0.5
    """
    keys = [complaint.split(":")[0] for complaint in complaints(text)]
    assert sorted(keys) == [
        "agent.timeout_sec", "agent.user", "artifacts", "environment.cpus", "environment.memory_mb", "output.max_bytes",
        "source", "steps", "verifier.environment_mode",
    ]  # fmt: skip


def test_metadata_may_hold_anything_and_dates_become_text():
    text = "[metadata]\nday = 2024-05-06\nat = 2024-05-06T07:08:09Z\nclock = 07:08:09\nnested = [{a = [1, 2.5, true]}]"
    assert config_of(text).metadata == {
        "day": "2024-05-06",
        "at": "2024-05-06T07:08:09+00:00",
        "clock": "07:08:09",
        "nested": [{"a": [1, 2.5, True]}],
    }


@pytest.mark.parametrize("value", ["nan", "-inf", "{a = [inf]}", f"0x{'f' * 4000}"], ids=["nan", "inf", "deep", "huge"])
def test_what_json_cannot_hold_is_left_out_of_metadata_with_a_warning(value):
    config, report = read_config(f"[metadata]\nkept = 1\nodd = {value}")
    assert config is not None
    assert config.metadata == {"kept": 1}
    assert [(p.code, p.severity, p.key) for p in report.problems] == [("not-storable", "warning", "metadata.odd")]


def test_an_unknown_key_that_json_cannot_hold_is_reported_too():
    config, report = read_config("[agent]\nodd = nan")
    assert config is not None
    assert config.extra == {}
    assert [p.code for p in report.problems] == ["unknown-key", "not-storable"]


@pytest.mark.parametrize("table", ["metadata", "tools", "source"])
def test_a_table_nested_hundreds_of_levels_deep_is_reported(table):
    config, report = read_config(f"{table}.{'a.' * 700}a = 1")
    assert config is None or config.metadata == config.extra == {}
    assert report.problems


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[agent\ntimeout_sec = 5", "line 1"),
        ("a = 1\na = 2\n", "line 2"),
        ("\n\nx = ", "end of document"),
        ("a = '\0'", "line 1"),
    ],
)
def test_what_is_not_toml_is_reported_with_its_place(text, place):
    config, report = read_config(text)
    assert config is None
    (problem,) = report.problems
    assert (problem.code, problem.severity, problem.file) == ("bad-toml", "error", "task.toml")
    assert place in problem.message


@pytest.mark.parametrize("text", ["\ufeffsource = 'x'\n", "source = 'x'\r\n[agent]\r\n"], ids=["BOM", "CRLF"])
def test_a_byte_order_mark_or_windows_line_ends_change_nothing(text):
    assert config_of(text).source == "x"


def test_a_verdict_of_an_unknown_kind_is_an_error_that_names_the_known_ones():
    _, report = read_config('[verifier]\nverdict = "exit-code"\n')
    (problem,) = report.problems
    assert (problem.severity, problem.key) == ("error", "verifier.verdict")
    assert "one of reward, exit_status" in problem.message


def test_an_author_may_accept_findings_and_say_what_the_solution_gets():
    config = config_of('[check]\naccept = ["V5/*:note"]\noracle_reward = 0.8\n')
    assert (config.check.accept, config.check.oracle_reward) == (("V5/*:note",), 0.8)


@pytest.mark.parametrize("text", ["oracle_reward = 1.5", "oracle_reward = -1", 'accept = "V5"'])
def test_a_wrong_check_table_is_named_and_stops_nothing(text):
    assert config_of(f"[check]\n{text}\n").check == TaskConfig().check
    assert [complaint.partition(":")[0] for complaint in complaints(f"[check]\n{text}\n", "warning")]
    assert complaints(f"[check]\n{text}\n") == []
