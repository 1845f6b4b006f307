"""The service `main` of a compose file, key by key."""

import json
from typing import Any

import pytest

from seatrial.tasks.compose_service import Machine, Outside, asks_of_service

USUAL = Machine()
NO_OUTSIDE = Outside({}, {})


def asks(service: dict[str, Any], machine: Machine = USUAL, outside: Outside = NO_OUTSIDE) -> list[str]:
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
    assert asks(service) == []


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
    (found,) = asks(service)
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
    assert asks(service, machine) == []


def test_an_image_that_only_the_compose_file_names_is_named():
    assert asks({"image": "org/x:1"}, Machine(dockerfile=False)) == ["the image org/x:1, which task.toml does not name"]
    assert asks({"build": "."}, Machine(dockerfile=False)) == ["a build, though there is no Dockerfile"]


def test_networks_and_volumes_of_the_outside_are_named():
    outside = Outside({"shared": {"external": True}, "cut": {"internal": True}}, {"data": {"external": True}})
    assert asks({"networks": {"shared": {}}, "volumes": ["data:/d"]}, USUAL, outside) == [
        "the network shared",
        "data mounted at /d",
    ]
    assert asks({"networks": ["cut"]}, USUAL, outside) == ["the network cut"]
    assert asks({"networks": ["cut"]}, Machine(network="no-network"), outside) == []
