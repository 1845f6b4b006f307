"""The machine a task asks for: image, sizes, network, healthcheck, tool servers; contradictions are said aloud."""

import pytest

from seatrial.model.config import EnvironmentSpec, HealthcheckSpec, McpServerSpec, NetworkPolicy, TpuSpec
from seatrial.tasks.machine import read_environment, read_network
from seatrial.tasks.table import Report, Table


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
