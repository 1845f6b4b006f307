"""The quirks of task.toml: versions, older spellings, loose types, refused values. test_toml_full.py has every key."""

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.task import (
    AgentSpec,
    ArtifactSpec,
    Author,
    CollectHook,
    EnvironmentSpec,
    HealthcheckSpec,
    McpServerSpec,
    NetworkPolicy,
    OutputDeclaration,
    PackageSpec,
    StepSpec,
    TaskConfig,
    TpuSpec,
    VerifierPhaseSpec,
)
from seatrial.tasks import toml
from seatrial.tasks.table import Report, Table
from seatrial.tasks.toml import read_config, read_environment, read_network, without_check


def config_of(text):
    config, report = read_config(text)
    assert config is not None, report.problems
    return config


def complaints(text, severity="error"):
    """`key: message` of every problem of that severity."""
    return [f"{p.key}: {p.message}" for p in read_config(text)[1].problems if p.severity == severity]


def test_tasks_of_the_same_file_share_what_it_says():
    text = '[metadata]\ncategory = "data"\n[agent]\ntimeout_sec = 5.0\n'
    assert read_config(text)[0] is read_config("".join([*text]))[0]
    assert config_of(text) != config_of(text.replace("5.0", "6.0"))


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


def machine(reader=read_environment, **values):
    """What a reader makes of an `[environment]` table, and the problems as (severity, key, message)."""
    report = Report("task.toml")
    spec = reader(Table(values, "environment", report))
    return spec, [(problem.severity, problem.key, problem.message) for problem in report.problems]


def test_an_empty_environment_has_the_defaults_of_the_format():
    spec, problems = machine()
    assert (spec, problems) == (EnvironmentSpec(), [])
    assert (spec.os, spec.build_timeout_sec, spec.network.mode) == ("linux", 600.0, "public")
    assert spec.cpus is spec.memory_mb is spec.storage_mb is spec.gpus is None


@pytest.mark.parametrize("key", ["memory", "storage"])
@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("2G", 2048), ("1g", 1024), ("512M", 512), ("0.5G", 512), ("1T", 2**20), ("2 GiB", 2048), ("1048576", 1)],
)
def test_wild_3_sizes_may_be_written_as_text(key, text, megabytes):
    spec, problems = machine(**{key: text})
    assert (getattr(spec, f"{key}_mb"), problems) == (megabytes, [])


@pytest.mark.parametrize(
    "text",
    ["", "big", "2X", "-1G", "0G", "512", "1e3M", "9" * 400 + "G"],
    ids=["empty", "word", "unit", "negative", "zero", "too small", "exponent", "too large"],
)
def test_a_size_that_is_none_is_refused(text):
    spec, problems = machine(memory=text)
    assert spec.memory_mb is None
    ((severity, key, message),) = problems
    assert (severity, key) == ("error", "environment.memory")
    assert message.endswith('expected a size such as "2G" or "512M"')


def test_wild_3_both_sizes_may_stand_together_when_they_agree():
    assert machine(memory="2G", memory_mb=2048) == (EnvironmentSpec(memory_mb=2048), [])


def test_of_two_sizes_the_one_in_megabytes_counts():
    spec, problems = machine(storage="10G", storage_mb=5)
    assert spec.storage_mb == 5
    assert problems == [("warning", "environment.storage", "storage is 10G and storage_mb is 5; storage_mb counts")]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("cpus", 0, "a number above 0"),
        ("memory_mb", 1.5, "a whole number of at least 1"),
        ("gpus", -1, "a whole number of at least 0"),
        ("build_timeout_sec", 0, "a number above 0"),
        ("os", "beos", "one of linux, windows"),
        ("workdir", "work", "an absolute path"),
        ("gpu_types", "A100", "a list of texts"),
        ("env", ["A=1"], "a table"),
        ("healthcheck", "true", "a table"),
        ("mcp_servers", ["x"], "a list of tables"),
        ("network_mode", "bridge", "one of public, no-network, allowlist"),
        ("allow_internet", "yes", "true or false"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_expected(key, value, expected):
    _, problems = machine(**{key: value})
    assert problems[0] == ("error", f"environment.{key}", f"found {value!r}, expected {expected}")


@pytest.mark.parametrize("written", ["Linux", "LINUX", "linux"])
def test_the_case_of_the_os_does_not_matter(written):
    assert machine(os=written) == (EnvironmentSpec(os="linux"), [])


def test_the_older_name_of_the_image_is_read_with_a_note():
    spec, problems = machine(image="busybox")
    assert spec.docker_image == "busybox"
    assert problems == [("note", "environment.image", "read as `docker_image`")]


def test_an_empty_image_is_none():
    assert machine(docker_image="") == (EnvironmentSpec(), [])


def test_a_tpu_without_a_type_is_none():
    assert machine(tpu={"type": "v5e"})[0].tpu == TpuSpec(type="v5e")
    assert machine(tpu={"topology": "2x2"})[0].tpu is None


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({"network_mode": "no-network"}, "no-network"),
        ({"network_mode": "Public"}, "public"),
        ({"allow_internet": True}, "public"),
        ({"allow_internet": False}, "no-network"),
        ({"network_mode": "public", "allow_internet": True}, "public"),
    ],
    ids=["mode", "any case", "internet", "no internet", "both agree"],
)
def test_the_network_policy_in_either_spelling(values, mode):
    assert machine(read_network, **values) == (NetworkPolicy(mode=mode), [])


def test_a_phase_without_a_policy_has_none_of_its_own():
    assert machine(read_network) == (None, [])


@pytest.mark.parametrize(
    ("written", "mode"),
    [("no-network", "no-network"), ("none", "no-network"), ({"mode": "public"}, "public")],
)
def test_the_oldest_spelling_of_the_network_is_read_with_a_note(written, mode):
    policy, problems = machine(read_network, network=written)
    assert policy == NetworkPolicy(mode=mode)
    assert problems == [("note", "environment.network", "read as `network_mode`")]


@pytest.mark.parametrize("written", ["host", {"mode": "public", "name": "lan"}, {"mode": ["public"]}, ["public"], 5])
def test_any_other_network_stays_an_unknown_key(written):
    spec, problems = machine(network=written)
    assert spec.network == NetworkPolicy()
    assert [(severity, key) for severity, key, _ in problems] == [("warning", "environment.network")]


@pytest.mark.parametrize("older", [{"allow_internet": False}, {"network": "none"}], ids=["flag", "word"])
def test_wild_13_network_mode_beats_what_contradicts_it(older):
    policy, problems = machine(read_network, network_mode="public", **older)
    assert policy == NetworkPolicy(mode="public")
    message = "network_mode is public, but an older key says no-network; network_mode counts"
    assert ("warning", "environment.network_mode", message) in problems


def test_an_allowlist_keeps_its_hosts():
    hosts = ["example.com", "*.example.org", "::1", "10.0.0.0/8"]
    policy, problems = machine(read_network, network_mode="allowlist", allowed_hosts=hosts)
    assert (policy, problems) == (NetworkPolicy(mode="allowlist", allowed_hosts=tuple(hosts)), [])


@pytest.mark.parametrize(
    ("values", "found"),
    [({}, "not set"), ({"network_mode": "public"}, "public"), ({"allow_internet": False}, "no-network")],
    ids=["unset", "public", "none"],
)
def test_hosts_without_an_allowlist_are_warned_about(values, found):
    _, problems = machine(read_network, allowed_hosts=["example.com"], **values)
    message = f"allowed_hosts has no effect: the mode is {found}"
    assert problems == [("warning", "environment.allowed_hosts", message)]


def test_a_healthcheck_has_the_defaults_of_the_format():
    spec, problems = machine(healthcheck={"command": "true"})
    assert problems == []
    assert spec.healthcheck == HealthcheckSpec(
        command="true", interval_sec=5.0, timeout_sec=30.0, start_period_sec=0.0, start_interval_sec=5.0, retries=3
    )


def test_a_healthcheck_without_a_command_is_refused():
    spec, problems = machine(healthcheck={"retries": 1})
    assert spec.healthcheck is None
    assert problems == [("error", "environment.healthcheck.command", "found None, expected a command")]


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"name": "a", "url": "http://a"}, McpServerSpec(name="a", transport="sse", url="http://a")),
        ({"name": "a", "transport": "http"}, McpServerSpec(name="a", transport="streamable-http")),
        ({"name": "a", "transport": "STDIO", "command": "srv", "args": ["-v"]},
         McpServerSpec(name="a", transport="stdio", command="srv", args=("-v",))),
    ],
    ids=["default transport", "alias", "stdio"],
)  # fmt: skip
def test_tool_servers_are_read(server, expected):
    spec, problems = machine(mcp_servers=[server])
    assert (spec.mcp_servers, problems) == ((expected,), [])


def test_a_tool_server_without_a_name_is_refused():
    spec, problems = machine(mcp_servers=[{"url": "http://a"}])
    assert spec.mcp_servers == ()
    assert problems == [("error", "environment.mcp_servers[0].name", "found None, expected a name")]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Authorization", "Bearer abc123"),
        ("X-Api-Key", "abc123"),
        ("COOKIE", "id=1"),
        ("Authorization", "Bearer $TOKEN"),
        ("Authorization", "Bearer ${TOKEN:-sk-abc123}"),
        ("Authorization", "Bearer abc123 ${TOKEN}"),
    ],
    ids=["bearer", "api key", "cookie", "no template", "as a default", "beside a template"],
)
def test_a_literal_credential_is_refused(header, value):
    _, problems = machine(mcp_servers=[{"name": "a", "headers": {header: value}}])
    key = f"environment.mcp_servers[0].headers.{header}"
    assert problems == [("error", key, "a credential must not stand in task.toml")]


@pytest.mark.parametrize(
    ("header", "value"),
    [("Authorization", "Bearer ${TOKEN}"), ("X-Api-Key", "${KEY}"), ("Accept", "text/event-stream")],
)
def test_a_header_without_a_credential_is_fine(header, value):
    spec, problems = machine(mcp_servers=[{"name": "a", "headers": {header: value}}])
    assert problems == []
    assert spec.mcp_servers[0].headers == {header: value}


FULL = """
schema_version = "1.4"
source = "plant-bench"
artifacts = ["/workspace/plots", {source = "/var/log/app", destination = "logs", exclude = ["*.tmp"], service = "db"}]
multi_step_reward_strategy = "final"

[task]
name = "acme/pump"
version = "2.1"
description = "Choose a pump"
authors = [{name = "Ada", email = "ada@example.com"}, {name = "Bo"}]
keywords = ["pump", "flow"]

[metadata]
difficulty = "hard"
tags = ["a", "b"]
expert_time_estimate_min = 30

[agent]
timeout_sec = 900
user = "agent"
network_mode = "allowlist"
allowed_hosts = ["example.com", "*.example.org", "10.0.0.0/8"]

[verifier]
timeout_sec = 120.5
env = {KEY = "${KEY}", LEVEL = "${LEVEL:-info}"}
user = 0
workdir = "/tests"
network_mode = "no-network"
environment_mode = "separate"
expected_output_path = "/workspace/out.json"
schema_gate = "zero"
verdict = "exit_status"
reward_path = "/logs/verifier/score.json"
details_path = "/logs/verifier/why.json"

[verifier.environment]
docker_image = "judge:1"

[[verifier.collect]]
command = "pg_dump > /logs/artifacts/db.sql"
service = "db"
timeout_sec = 30
user = "postgres"

[environment]
docker_image = "python:3.11-slim"
build_timeout_sec = 300
os = "linux"
cpus = 2
memory_mb = 2048
storage_mb = 10240
gpus = 1
gpu_types = ["A100"]
env = {MODE = "test"}
workdir = "/workspace"
network_mode = "public"
skills_dir = "/skills"

[environment.tpu]
type = "v5e"
topology = "2x2"

[[environment.mcp_servers]]
name = "files"
transport = "http"
url = "http://files:8000/mcp"
headers = {Authorization = "Bearer ${TOKEN}"}

[environment.healthcheck]
command = "curl -f localhost"
interval_sec = 1
timeout_sec = 2
start_period_sec = 3
start_interval_sec = 4
retries = 5

[output]
path = "/workspace/out.json"
format = "json"
schema = "tests/schema.json"
required_keys = ["pump"]
schema_gate = "report"
max_bytes = 1000

[solution]
env = {SEED = "1"}

[[steps]]
name = "choose"
min_reward = 0.5
artifacts = ["/workspace/choice.json"]
agent = {timeout_sec = 60}
verifier = {timeout_sec = 30}
healthcheck = {command = "true"}

[[steps]]
name = "install"
min_reward = {correctness = 1, speed = 0.5}
"""


def test_every_key_of_the_format_has_its_place():
    config, report = read_config(FULL)
    assert report.problems == []
    assert config == TaskConfig(
        schema_version="1.4",
        source="plant-bench",
        package=PackageSpec(
            name="acme/pump",
            version="2.1",
            description="Choose a pump",
            authors=(Author(name="Ada", email="ada@example.com"), Author(name="Bo")),
            keywords=("pump", "flow"),
        ),
        metadata={"difficulty": "hard", "tags": ["a", "b"], "expert_time_estimate_min": 30},
        agent=AgentSpec(
            timeout_sec=900.0,
            user="agent",
            network=NetworkPolicy(mode="allowlist", allowed_hosts=("example.com", "*.example.org", "10.0.0.0/8")),
        ),
        verifier=VerifierPhaseSpec(
            timeout_sec=120.5,
            env={"KEY": "${KEY}", "LEVEL": "${LEVEL:-info}"},
            user=0,
            workdir="/tests",
            network=NetworkPolicy(mode="no-network"),
            environment_mode="separate",
            environment=EnvironmentSpec(docker_image="judge:1"),
            collect=(
                CollectHook(
                    command="pg_dump > /logs/artifacts/db.sql", service="db", timeout_sec=30.0, user="postgres"
                ),
            ),
            expected_output_path="/workspace/out.json",
            schema_gate="zero",
            verdict="exit_status",
            reward_path="/logs/verifier/score.json",
            details_path="/logs/verifier/why.json",
        ),
        environment=EnvironmentSpec(
            docker_image="python:3.11-slim",
            build_timeout_sec=300.0,
            os="linux",
            cpus=2.0,
            memory_mb=2048,
            storage_mb=10240,
            gpus=1,
            gpu_types=("A100",),
            tpu=TpuSpec(type="v5e", topology="2x2"),
            env={"MODE": "test"},
            workdir="/workspace",
            network=NetworkPolicy(mode="public"),
            skills_dir="/skills",
            mcp_servers=(
                McpServerSpec(
                    name="files",
                    transport="streamable-http",
                    url="http://files:8000/mcp",
                    headers={"Authorization": "Bearer ${TOKEN}"},
                ),
            ),
            healthcheck=HealthcheckSpec(
                command="curl -f localhost",
                interval_sec=1.0,
                timeout_sec=2.0,
                start_period_sec=3.0,
                start_interval_sec=4.0,
                retries=5,
            ),
        ),
        output=OutputDeclaration(
            path="/workspace/out.json",
            format="json",
            schema_file="tests/schema.json",
            required_keys=("pump",),
            schema_gate="report",
            max_bytes=1000,
        ),
        solution_env={"SEED": "1"},
        artifacts=(
            ArtifactSpec(source="/workspace/plots"),
            ArtifactSpec(source="/var/log/app", destination="logs", exclude=("*.tmp",), service="db"),
        ),
        steps=(
            StepSpec(
                name="choose",
                min_reward=0.5,
                artifacts=(ArtifactSpec(source="/workspace/choice.json"),),
                agent=AgentSpec(timeout_sec=60.0),
                verifier=VerifierPhaseSpec(timeout_sec=30.0),
                healthcheck=HealthcheckSpec(command="true"),
            ),
            StepSpec(name="install", min_reward={"correctness": 1.0, "speed": 0.5}),
        ),
        multi_step_reward_strategy="final",
    )


def test_an_empty_file_is_a_task_with_the_defaults_of_the_format():
    config, report = read_config("")
    assert (config, report.problems) == (TaskConfig(), [])
    assert config is not None
    assert (config.schema_version, config.agent.timeout_sec, config.verifier.timeout_sec) == ("1.4", None, 600.0)
    assert config.verifier.environment_mode == "shared"
    assert config.multi_step_reward_strategy == "mean"


def values(config: bytes):
    return tomli.loads(config.decode("utf-8-sig"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[a]\nx = 1 # one\n\n[check]\naccept = ['V2/*']\n\n[b]\ny = 2\n", "[a]\nx = 1 # one\n\n[b]\ny = 2\n"),
        ("[a]\nx = 1\n# not looked at: signs\n[check]\naccept = [\n  'V2/*',\n]\n", "[a]\nx = 1\n"),
        ("check.accept = ['V2/*']\nx = 1\n", "x = 1\n"),
        ("check = { accept = ['V2/*'] }\n[a]\nx = 1\n", "[a]\nx = 1\n"),
        ("[ 'check' ]\naccept = []\n[check.more]\nx = 1\n[a]\n", "[a]\n"),
    ],
)
def test_the_table_goes_and_the_rest_stays_as_it_was_written(text, left):
    assert without_check(text.encode()).decode() == left


@pytest.mark.parametrize(
    "text", ["", "[metadata]\ncheck = 1\n", "[checks]\nx = 1\n", "# [check]\nx = 'check'\n", "check = ", "\ufffdcheck"]
)
def test_a_file_without_it_stays_as_it_is(text):
    assert without_check(text.encode()) == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        'check.accept = [\n  "V2/*",\n]\nx = 1\n',
        "x = '''\n[check]\n'''\n[check]\naccept = ['secret']\n",
        '"\\u0063heck" = {accept = ["secret"]}\nx = [1, 2.5, true, 1979-05-27T07:32:00Z, 07:32:00, "\\u007f\\n"]\n',
        "[check]\naccept = ['''\n[b]\n''']\n[a.b]\nx = -1e20\n",
        "[check]\naccept = ['secret']\n[a]\nx = nan\ny = inf\n",
    ],
)
def test_where_lines_cannot_be_cut_out_it_is_written_anew(text):
    left = without_check(text.encode())
    assert b"secret" not in left
    found, wanted = values(left), values(text.encode())
    del wanted["check"]
    assert repr(found) == repr(wanted)


texts = st.text(st.characters(codec="utf-8"))
toml_values = st.recursive(
    texts | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(toml_values)
def test_whatever_else_is_in_it_stays(value):
    written = f'"\\u0063heck" = 1\nx = {toml._value(value)}\n'
    assert values(without_check(written.encode())) == {"x": value}


@given(st.text())
def test_any_bytes_are_taken(text):
    without_check(("check" + text).encode(errors="surrogatepass"))
