"""What tasks ask for and cannot get: found in task.toml and compose files, each with its code and place."""

import pytest

from seatrial.model.config import NetworkPolicy
from seatrial.model.task import BrokenTask
from seatrial.tasks.layout import list_files
from seatrial.tasks.lint import lint
from seatrial.tasks.load import load_task, read_folder
from seatrial.tasks.needs import REASONS, needs_of
from seatrial.trial.rounds import rounds_of

TWO_SERVICES = "services:\n  main: {build: .}\n  db: {image: postgres}\n"
ONE_SERVICE = "services:\n  main:\n    build: .\n    image: ${MAIN_IMAGE_NAME}\n"
DOCKERFILE = {"environment/Dockerfile": "FROM scratch\n"}


def found(root):
    return [(need.code, need.what, need.key or need.file) for need in needs_of(load_task(root))]


@pytest.mark.parametrize(
    ("toml", "need"),
    [
        ("gpus = 1", ("needs-gpu", "a GPU", "environment.gpus")),
        ("gpus = 8", ("needs-gpu", "8 GPUs", "environment.gpus")),
        ('os = "windows"', ("needs-windows", "Windows", "environment.os")),
        ("workdir = 'C:\\app'", ("needs-windows", "Windows, for the folder C:\\app", "environment.workdir")),
        ('workdir = "d:/x"', ("needs-windows", "Windows, for the folder d:/x", "environment.workdir")),
        ("os = 'windows'\nworkdir = 'C:\\app'", ("needs-windows", "Windows", "environment.os")),
        ('tpu = {type = "v5e"}', ("needs-tpu", "a TPU of type v5e", "environment.tpu")),
        ('type = "vm"', ("needs-environment", "an environment of type vm", "environment.type")),
        ('vm_backend = "qemu"', ("needs-environment", "a virtual machine by qemu", "environment.vm_backend")),
        ("nodes = 3", ("needs-environment", "several machines", "environment.nodes")),
        ('nodes = ["a", "b"]', ("needs-environment", "several machines", "environment.nodes")),
    ],
)
def test_what_task_toml_asks_for_is_found(make_task, toml, need):
    assert found(make_task(toml=f"[environment]\n{toml}\n")) == [need]


@pytest.mark.parametrize(
    "toml",
    [
        "gpus = 0",
        'os = "Linux"',
        "mcp_servers = []",
        'mcp_servers = [{name = "a", url = "http://a"}]',
        'type = "Docker"',
        "nodes = 1",
        "nodes = []",
        'skills_dir = "/skills"',
        'gpu_types = ["h100"]',
        'extensions = ["x"]',
        "cpus = 64\nmemory_mb = 9999999",
    ],
)
def test_what_can_be_had_or_does_no_harm_is_no_need(make_task, toml):
    assert found(make_task(toml=f"[environment]\n{toml}\n")) == []


def test_a_compose_file_with_more_than_the_dockerfile_is_found(make_task):
    root = make_task(files={**DOCKERFILE, "environment/docker-compose.yaml": TWO_SERVICES})
    assert found(root) == [("needs-compose", "the service db", "environment/docker-compose.yaml")]
    fine = make_task("fine", files={**DOCKERFILE, "environment/docker-compose.yaml": ONE_SERVICE})
    assert found(fine) == []


@pytest.mark.parametrize("name", ["docker-compose.yml", "compose.yaml", "compose.yml"])
def test_a_file_of_another_name_beside_a_dockerfile_is_data_of_the_task(make_task, name):
    files = {f"environment/{name}": TWO_SERVICES}
    assert found(make_task(files={**DOCKERFILE, **files})) == []
    assert [code for code, *_ in found(make_task("bare", files=files))] == ["needs-compose"] * 2


def test_what_task_toml_says_counts_when_a_compose_file_is_read(make_task):
    toml = '[environment]\nworkdir = "/srv"\n[environment.env]\nA = "1"\n[agent]\nuser = "ann"\n'
    compose = "services: {main: {working_dir: /srv, user: ann, environment: [A=1]}}"
    assert found(make_task(toml=toml, files={**DOCKERFILE, "environment/docker-compose.yaml": compose})) == []
    assert len(found(make_task("bare", files={**DOCKERFILE, "environment/docker-compose.yaml": compose}))) == 3


def test_a_folder_of_windows_in_a_dockerfile_is_found(make_task):
    """Later folders of Windows lie within it; those of Linux after it would not."""
    dockerfile = {"environment/Dockerfile": "FROM x\nWORKDIR C:\\app\n"}
    need = ("needs-windows", "Windows, for the folder C:\\app", "environment/Dockerfile")
    assert found(make_task(files=dockerfile)) == [need]
    assert found(make_task("declared", toml='[environment]\nworkdir = "/app"\n', files=dockerfile)) == []


NO_NETWORK = "services: {main: {build: ., network_mode: none}}"
INNER = "services: {main: {networks: [inner]}}\nnetworks: {inner: {internal: true}}"
PHASES = """
[environment]
network_mode = "public"
[agent]
network_mode = "public"
[verifier]
network_mode = "public"
[[steps]]
name = "one"
[steps.agent]
network_mode = "allowlist"
allowed_hosts = ["a.org"]
"""
TWO_STEPS = {"steps/one/instruction.md": "Do it.", "steps/one/tests/test.sh": ""}


@pytest.mark.parametrize("compose", [NO_NETWORK, INNER])
def test_a_compose_file_without_a_network_leaves_none_to_any_phase(make_task, compose):
    root = make_task(toml=PHASES, files={**DOCKERFILE, **TWO_STEPS, "environment/docker-compose.yaml": compose})
    assert found(root) == []
    (round_,) = rounds_of(load_task(root))
    environment = round_.task.config.environment.network
    assert environment.mode == "no-network"
    asked = (round_.agent.network, round_.verifier.network, round_.task.config.verifier.network)
    assert asked == (None, None, None)


def test_a_separate_verifier_is_in_another_container(make_task):
    toml = '[verifier]\nenvironment_mode = "separate"\n'
    task = load_task(make_task(toml=toml, files={**DOCKERFILE, "environment/docker-compose.yaml": NO_NETWORK}))
    assert task.config.environment.network.mode == "no-network"
    assert task.config.verifier.network == NetworkPolicy(mode="public")


@pytest.mark.parametrize(
    ("name", "compose"),
    [
        ("compose.yaml", NO_NETWORK),
        ("docker-compose.yaml", "services: {main: {build: .}, db: {network_mode: none}}"),
        ("docker-compose.yaml", "services: {main: {networks: [inner, outer]}}\nnetworks: {inner: {internal: true}}"),
        ("docker-compose.yaml", "network_mode: none: ["),
    ],
)
def test_other_compose_files_take_no_network_away(make_task, name, compose):
    task = load_task(make_task(files={**DOCKERFILE, f"environment/{name}": compose}))
    assert task.config.environment.network.mode == "public"


def test_a_compose_file_that_is_too_long_is_not_read(make_task):
    root = make_task(files={**DOCKERFILE, "environment/docker-compose.yaml": "#" * 300_000})
    ((code, what, _),) = found(root)
    assert (code, what) == ("needs-compose", "a compose file that cannot be read: it has more than 262,144 bytes")


def test_a_separate_verifier_has_needs_of_its_own(make_task):
    toml = '[verifier]\nenvironment_mode = "separate"\n[verifier.environment]\ngpus = 1\n'
    files = {"tests/Dockerfile": "FROM scratch\n", "tests/docker-compose.yaml": TWO_SERVICES}
    assert [need[0] for need in found(make_task(toml=toml, files=files))] == ["needs-gpu", "needs-compose"]
    assert found(make_task("shared", files=files)) == [], "a fixture of the tests"


def test_hooks_and_artifacts_of_other_services_are_found(make_task):
    toml = """
    artifacts = [{source = "/dump", service = "db"}, {source = "/x", service = "main"}]
    [[verifier.collect]]
    command = "pg_dump"
    service = "db"
    [[verifier.collect]]
    command = "true"
    """
    assert [(what, key) for _, what, key in found(make_task(toml=toml))] == [
        ("the service db", "verifier.collect"),
        ("the service db", "artifacts"),
    ]


def test_an_outline_has_the_same_needs_and_what_was_read_is_known(make_task):
    root = make_task(
        toml="[environment]\ngpus = 1\n", files={**DOCKERFILE, "environment/docker-compose.yaml": TWO_SERVICES}
    )
    files = list_files(root)
    outline = read_folder(root, "task", files)
    assert not isinstance(outline, BrokenTask)
    assert needs_of(outline, files) == needs_of(load_task(root))
    assert "environment/docker-compose.yaml" in files.read


def test_lint_names_them_as_warnings_with_a_way_out(make_task):
    root = make_task(toml='[environment]\ngpus = 1\nskills_dir = "/s"\nmcp_servers = [{name = "a"}]\n')
    said = {problem.code: problem for problem in lint(load_task(root), {})}
    assert said["needs-gpu"].severity == said["mcp-server"].severity == "warning"
    assert "--allow-partial-limits" in (said["needs-gpu"].fix or "")
    assert "`url`" in (said["mcp-server"].fix or "")


def test_lint_names_servers_that_hide_each_other(make_task):
    servers = '[{name = "a", url = "http://x"}, {name = "a", url = "http://y"}]'
    said = lint(load_task(make_task(toml=f"[environment]\nmcp_servers = {servers}\n")), {})
    assert "several MCP servers are called 'a'" in str([problem.message for problem in said])


def test_every_code_has_a_reason():
    assert all(REASONS.values())
