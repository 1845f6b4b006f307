"""Compose files: those that only repeat the Dockerfile ask for nothing, every other one says what it asks for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.tasks.compose import compose_asks
from seatrial.tasks.compose_service import Machine

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
