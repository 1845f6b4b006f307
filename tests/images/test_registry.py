"""Who we are to a registry, from what `docker login` and credential helpers leave."""

import asyncio
import base64
import json

import pytest

from seatrial.images.registry import find_credentials


def find(tmp_path, domain, config, **environ):
    if config is not None:
        (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return asyncio.run(find_credentials(domain, {"DOCKER_CONFIG": str(tmp_path), "PATH": str(tmp_path), **environ}))


def helper(tmp_path, name, script):
    path = tmp_path / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def auth(user="al", word="open:sesame"):
    return {"auth": base64.b64encode(f"{user}:{word}".encode()).decode()}


@pytest.mark.parametrize(
    ("domain", "key"),
    [
        ("ghcr.io", "ghcr.io"),
        ("ghcr.io", "https://ghcr.io"),
        ("ghcr.io", "https://ghcr.io/v1/"),
        ("localhost:5000", "localhost:5000"),
        ("docker.io", "https://index.docker.io/v1/"),
        ("docker.io", "docker.io"),
    ],
)
def test_what_docker_login_wrote(tmp_path, domain, key):
    found = find(tmp_path, domain, {"auths": {"other.io": auth("eve"), key: auth()}})
    assert (found.username, found.password, found.anonymous) == ("al", "open:sesame", False)
    assert "open:sesame" not in repr(found)


def test_a_token_to_ask_for_tokens_with(tmp_path):
    found = find(tmp_path, "a.io", {"auths": {"a.io": {**auth("al", ""), "identitytoken": "T"}}})
    assert (found.identity_token, found.anonymous) == ("T", False)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (None, "there is no"),
        ("{", "cannot be read"),
        ("[]", "not a table"),
        ({"auths": {"b.io": auth()}}, "has nothing for a.io"),
        ({"auths": {"a.io": {}}}, "has nothing for a.io"),
        ({"auths": []}, "has nothing for a.io"),
        ({"auths": {"a.io": {"auth": "?"}}}, "not base64"),
        ({"credsStore": "missing"}, "docker-credential-missing is not on the PATH"),
    ],
)
def test_why_there_are_none(tmp_path, config, reason):
    found = find(tmp_path, "a.io", config)
    assert found.anonymous
    assert reason in found.source


def test_a_helper_for_one_registry_and_one_for_the_rest(tmp_path):
    answer = 'read server; echo \'{"Username":"%s of \'$server\'","Secret":"s"}\''
    helper(tmp_path, "own", answer % "own")
    helper(tmp_path, "all", answer % "all")
    config = {"credsStore": "all", "credHelpers": {"a.io": "own"}}
    assert find(tmp_path, "a.io", config).username == "own of a.io"
    assert find(tmp_path, "b.io", config).username == "all of b.io"
    assert find(tmp_path, "docker.io", config).username == "all of https://index.docker.io/v1/"


def test_a_helper_that_gives_a_token(tmp_path):
    helper(tmp_path, "t", 'echo \'{"Username":"<token>","Secret":"T"}\'')
    assert find(tmp_path, "a.io", {"credsStore": "t"}).identity_token == "T"  # noqa: S105 - not a secret


@pytest.mark.parametrize("script", ["echo credentials not found; exit 1", "echo nonsense", "echo '{}'", "exit 3"])
def test_a_helper_that_has_none(tmp_path, script):
    helper(tmp_path, "t", script)
    found = find(tmp_path, "a.io", {"credsStore": "t"})
    assert found.anonymous
    assert "docker-credential-t" in found.source
    assert find(tmp_path, "a.io", {"credsStore": "t", "auths": {"a.io": auth()}}).username == "al"


def test_a_helper_cannot_be_any_program(tmp_path):
    assert find(tmp_path, "a.io", {"credsStore": "../../bin/sh"}).anonymous
