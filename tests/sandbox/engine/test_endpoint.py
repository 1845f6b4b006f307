"""Where a daemon is looked for, and what is said when it is not there."""

import hashlib
import json

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.sandbox.engine.endpoint import Endpoint, find_endpoint, parse_address


def test_what_the_environment_names_comes_first(tmp_path):
    environ = {"DOCKER_HOST": "unix:///run/mine.sock", "CONTAINER_HOST": "unix:///run/pods.sock"}
    assert find_endpoint("docker", environ) == Endpoint("docker", "/run/mine.sock")
    assert find_endpoint("podman", environ) == Endpoint("podman", "/run/pods.sock")
    assert str(find_endpoint("docker", {"DOCKER_HOST": "tcp://10.0.0.1:2375"})) == "tcp://10.0.0.1:2375"


def test_docker_s_own_context_is_followed(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "colima"}))
    meta = tmp_path / "contexts/meta" / hashlib.sha256(b"colima").hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": "unix:///home/me/colima.sock"}}}))
    assert find_endpoint("docker", {"DOCKER_CONFIG": str(tmp_path)}).socket == "/home/me/colima.sock"
    assert find_endpoint("docker", {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "default"}).socket != "x"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"currentContext": "gone"}', '{"currentContext": 7}'])
def test_settings_that_make_no_sense_are_as_none(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    found = find_endpoint("docker", {"DOCKER_CONFIG": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert found.socket == "/var/run/docker.sock"


def test_a_user_s_own_daemon_is_found(tmp_path):
    (tmp_path / "podman").mkdir()
    for engine, name in (("docker", "docker.sock"), ("podman", "podman/podman.sock")):
        (tmp_path / name).touch()
        environ = {"XDG_RUNTIME_DIR": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}
        assert find_endpoint(engine, environ).socket == str(tmp_path / name)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["ssh://me@host", "tcp://host", "npipe://x", "unix://", "", "tcp://host:x"])
def test_addresses_of_other_kinds_are_refused_with_a_way_out(address):
    with pytest.raises(HostUnsupportedError, match=r"ssh -L"):
        parse_address("docker", address)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "no"), "docker group"),
        (FileNotFoundError(2, "no"), "no docker daemon at unix:///s; start it"),
        (ConnectionRefusedError(111, "no"), "no docker daemon"),
        (TimeoutError(), "does not answer"),
        (EOFError("half an answer"), "half an answer"),
    ],
)
def test_an_error_says_what_to_do(error, said):
    assert said in Endpoint("docker", "/s").explain(error)
