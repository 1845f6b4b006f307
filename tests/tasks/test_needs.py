"""What tasks ask for and cannot get: found in task.toml and compose files, each with its code and place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.loaded_task import BrokenTask
from seatrial.model.task import NetworkPolicy
from seatrial.tasks.layout import list_files
from seatrial.tasks.lint import lint
from seatrial.tasks.load import load_task, read_folder
from seatrial.tasks.needs import REASONS, Machine, Outside, asks_of_service, compose_asks, needs_of
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
    assert (code, what) == (
        "needs-compose",
        "a compose file that cannot be read: it has 300,000 bytes, expected 262,144 at most",
    )


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


COMMON = """\
# what two thousand public tasks have
services:
  main:
    build:
      context: ${CONTEXT_DIR}
    image: ${MAIN_IMAGE_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment:
      - TEST_DIR=${TEST_DIR}
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
      - ${HOST_AGENT_LOGS_PATH}:${ENV_AGENT_LOGS_PATH}
    deploy:
      resources:
        limits:
          cpus: ${CPUS}
          memory: ${MEMORY}
"""


def asks(text: str | bytes, machine: Machine | None = None) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    return list(compose_asks(content, machine or Machine()))


@pytest.mark.parametrize(
    "text",
    [
        COMMON,
        COMMON.replace("\n", "\r\n"),
        "\ufeff" + COMMON,
        "",
        "# nothing\n",
        "services:\n",
        "services: {main: }",
        "version: '3.8'\nname: x\nservices:\n  main: {build: .}\n",
        "services: {main: {networks: [default, inner]}}\nnetworks: {inner: {driver: bridge}}",
        "services: {main: {build: .}, debugger: {image: x, profiles: [debug]}}",
        "x-base: &base {tty: true}\nservices: {main: {<<: *base, init: true}}",
        "services: {main: {build: .}}\nsecrets: {unused: {file: ./x}}",
    ],
)
def test_a_file_that_only_repeats_the_dockerfile_asks_for_nothing(text):
    assert asks(text) == []


@pytest.mark.parametrize(
    ("text", "ask"),
    [
        ("services: {main: {build: .}, db: {image: postgres}}", "the service db"),
        ("services: {a: {}, main: {}, b: {}}", "the services a, b"),
        ("services: {app: {build: .}}", "the service app"),
        ("include: [other.yaml]\nservices: {main: {}}", "`include`"),
        ("services: [main]", "a compose file that cannot be read (services: found list, expected a table)"),
        ("- main", "a compose file that cannot be read (the file: found list, expected a table)"),
        ("services: {main: 5}", "a service `main` that is no table (5)"),
        ("a: 1\n---\nb: 2", "a compose file that cannot be read (2 documents in one file)"),
        (b"services: {main: {x: \xff}}", "a compose file that cannot be read ('utf-8' codec can't decode"),
        ("services: {main: !reset {}}", "a compose file that cannot be read (not YAML: could not determine"),
    ],
)
def test_what_the_file_as_a_whole_asks_for_is_said(text, ask):
    (found,) = asks(text)
    assert found.startswith(ask)


def test_what_is_said_of_one_file_is_bounded():
    service = {f"key{number}": "x" * 500 for number in range(50)}
    found = asks(json.dumps({"services": {"main": service, "y" * 500: {}}}))
    assert (len(found), found[-1]) == (9, "43 more")
    assert max(map(len, found)) < 100


def test_what_is_said_can_be_printed():
    found = asks('services: {"a\\e[31m\\nb": {}, main: {"k\\0": 1}}')
    assert all(text.isprintable() for text in found)


names = st.sampled_from(
    ["services", "main", "build", "image", "volumes", "environment", "deploy", "networks", "command"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(service=st.dictionaries(names | st.text(max_size=8), values, max_size=5), others=values)
def test_any_values_are_judged(service, others):
    for file in ({"services": {"main": service}, "volumes": others}, {"services": {"main": service}}, others):
        found = asks(json.dumps(file))
        assert all(text.isprintable() for text in found)


@given(st.binary(max_size=300))
def test_any_bytes_are_judged(content):
    assert all(text.isprintable() for text in asks(content))


@given(st.text(st.characters(categories=["L"]), min_size=1, max_size=12))
def test_no_key_is_passed_over(key):
    """Whatever compose learns next is refused until somebody has thought about it."""
    assert asks(json.dumps({"services": {"main": {f"zz{key}": True}}}))


USUAL = Machine()
NO_OUTSIDE = Outside({}, {})


def compose_service_asks(service: dict[str, Any], machine: Machine = USUAL, outside: Outside = NO_OUTSIDE) -> list[str]:
    return list(asks_of_service(service, machine, outside))


@pytest.mark.parametrize(
    "service",
    [
        {"build": "."},
        {"build": {"context": "./", "dockerfile": "Dockerfile", "args": {"HTTPS_PROXY": "${HTTPS_PROXY:-}"}}},
        {"build": {"context": "${CONTEXT_DIR}", "dockerfile": "./Dockerfile", "network": "host"}},
        {"image": "local/tag:1", "build": "."},
        {"image": "local/tag:1"},
        {"command": "sleep infinity"},
        {"command": ["tail", "-f", "/dev/null"]},
        {"command": ["bash", "-lc", "sleep infinity"]},
        {"command": 'sh -c "while true; do sleep 3600; done"'},
        {"entrypoint": ["/bin/sh", "-c"], "command": ["exec sleep 86400"]},
        {"command": "/bin/bash", "stdin_open": True, "tty": True},
        {"entrypoint": []},
        {"environment": {"TEST_DIR": "${TEST_DIR}", "PYTHONUNBUFFERED": 1, "API_KEY": "${API_KEY:-}", "EMPTY": ""}},
        {"environment": ["no_proxy=localhost", "DEBIAN_FRONTEND=noninteractive"]},
        {"volumes": ["${HOST_ARTIFACTS_PATH:-./artifacts}:/logs/artifacts", "cache:/var/cache", "/scratch"]},
        {"volumes": [{"type": "tmpfs", "target": "/run"}, {"type": "volume", "source": "x", "target": "/x"}]},
        {"ports": ["80:80"], "expose": [80], "container_name": "x", "restart": "always", "hostname": None},
        {"depends_on": {"db": {"condition": "service_healthy"}}},
        {"deploy": {"resources": {"limits": {"cpus": "2", "memory": "4G"}}, "replicas": 1}},
        {"cap_add": ["SETUID", "CAP_CHOWN"], "security_opt": ["label=disable", "apparmor:unconfined"]},
        {"platform": "linux/amd64", "user": "root", "working_dir": "/app/", "network_mode": "bridge"},
        {"privileged": False, "read_only": False, "cap_drop": [], "devices": []},
        {"healthcheck": {"disable": True}},
        {"scale": 1},
    ],
    ids=json.dumps,
)
def test_what_changes_nothing_asks_for_nothing(service):
    assert compose_service_asks(service) == []


@pytest.mark.parametrize(
    ("service", "ask"),
    [
        ({"build": ".."}, "the build context .."),
        ({"build": {"context": "./web"}}, "the build context web"),
        ({"build": {"dockerfile": "Dockerfile.agent"}}, "the Dockerfile Dockerfile.agent"),
        ({"build": {"target": "agent"}}, "`build.target`"),
        ({"build": {"args": ["VERSION=3"]}}, "the build arguments VERSION"),
        ({"command": "python3 /srv/app.py"}, "the command python3 /srv/app.py"),
        ({"command": ["bash", "-c", "service nginx start && sleep infinity"]}, "the command bash -c service nginx"),
        ({"command": "sleep infinity '"}, "the command sleep infinity '"),
        ({"entrypoint": "/init"}, "the entrypoint /init"),
        ({"environment": {"A": 1, "B": 2}}, "the variables A, B, which [environment.env] does not set"),
        ({"environment": [f"V{n}=x" for n in range(6)]}, "the variables V0, V1, V2, V3 and 2 more"),
        ({"environment": ["HOME_OF_HOST"]}, "the variables HOME_OF_HOST"),
        ({"env_file": ".env"}, "`env_file`"),
        ({"volumes": ["./data:/app/data:ro"]}, "./data mounted at /app/data"),
        ({"volumes": ["/var/run/docker.sock:/var/run/docker.sock"]}, "/var/run/docker.sock mounted at"),
        ({"volumes": [{"type": "bind", "source": "./x", "target": "/x"}]}, "./x mounted at /x"),
        ({"volumes": ["${DATA:-./d}:/data"]}, "$DATA mounted at /data"),
        ({"privileged": True}, "`privileged`"),
        ({"cap_add": ["NET_ADMIN", "SETUID"]}, "the capabilities NET_ADMIN"),
        ({"cap_add": ["ALL"]}, "the capabilities ALL"),
        ({"cap_drop": ["ALL"]}, "`cap_drop`"),
        ({"security_opt": ["seccomp=unconfined"]}, "the security option seccomp=unconfined"),
        ({"devices": ["/dev/kvm"]}, "`devices`"),
        ({"gpus": "all"}, "`gpus`"),
        ({"deploy": {"resources": {"reservations": {"devices": [{"driver": "nvidia"}]}}}}, "devices such as GPUs"),
        ({"deploy": {"replicas": 3}}, "`deploy.replicas`"),
        ({"network_mode": "host"}, "the network mode host"),
        ({"network_mode": "none"}, "the network mode none"),
        ({"platform": "linux/arm64"}, "the platform linux/arm64"),
        ({"user": "10001:10001"}, "the user 10001:10001"),
        ({"working_dir": "/srv"}, "the directory /srv instead of /app"),
        ({"healthcheck": {"test": ["CMD", "true"]}}, "a healthcheck"),
        ({"extra_hosts": ["a:10.0.0.1"]}, "`extra_hosts`"),
        ({"hostname": "box"}, "`hostname`"),
        ({"scale": 2}, "2 containers of `main`"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_what_cannot_be_had_is_named(service, ask):
    (found,) = compose_service_asks(service)
    assert found.startswith(ask)


@pytest.mark.parametrize(
    ("service", "machine"),
    [
        ({"environment": {"A": "1", "B": "${B}"}}, Machine(env=(("A", "1"), ("B", "${B:-2}")))),
        ({"user": 1000}, Machine(user="1000")),
        ({"working_dir": "/srv"}, Machine(workdir="/srv")),
        ({"healthcheck": {"test": "true"}}, Machine(healthcheck=True)),
        ({"network_mode": "none"}, Machine(network="no-network")),
        ({"image": "org/x:1"}, Machine(dockerfile=False, image="org/x:1")),
        ({"image": "${PREBUILT_IMAGE_NAME}"}, Machine(dockerfile=False)),
        ({"build": "."}, Machine(dockerfile=False, image="org/x:1")),
    ],
)
def test_what_task_toml_says_too_is_no_more(service, machine):
    assert compose_service_asks(service, machine) == []


def test_an_image_that_only_the_compose_file_names_is_named():
    assert compose_service_asks({"image": "org/x:1"}, Machine(dockerfile=False)) == [
        "the image org/x:1, which task.toml does not name"
    ]
    assert compose_service_asks({"build": "."}, Machine(dockerfile=False)) == ["a build, though there is no Dockerfile"]


def test_networks_and_volumes_of_the_outside_are_named():
    outside = Outside({"shared": {"external": True}, "cut": {"internal": True}}, {"data": {"external": True}})
    assert compose_service_asks({"networks": {"shared": {}}, "volumes": ["data:/d"]}, USUAL, outside) == [
        "the network shared",
        "data mounted at /d",
    ]
    assert compose_service_asks({"networks": ["cut"]}, USUAL, outside) == ["the network cut"]
    assert compose_service_asks({"networks": ["cut"]}, Machine(network="no-network"), outside) == []
