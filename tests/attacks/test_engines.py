"""Attacks in containers, where files are put back in place and nothing of the agent runs on."""

import pytest

from tests.attacks.arena import Arena, assert_stopped
from tests.attacks.attack import Attack
from tests.attacks.test_embedded import ATTACKS
from tests.attacks.test_reads import MODULES, Drawn, assert_named
from tests.docker_daemon import needs

IN_WORKSHOP = [attack for attack in ATTACKS if attack.place == "workshop"]


@pytest.mark.parametrize("arena", ["docker"], indirect=True)
@pytest.mark.parametrize("attack", IN_WORKSHOP[::40], ids=str)
@needs("docker")
def test_docker(arena: Arena, attack: Attack) -> None:
    ran = arena.play(attack)
    assert_stopped(attack, ran)
    assert ran.run.isolation == "kill"


@pytest.mark.parametrize("arena", ["podman"], indirect=True)
@pytest.mark.parametrize("attack", IN_WORKSHOP[4::100], ids=str)
@needs("podman")
def test_podman(arena: Arena, attack: Attack) -> None:
    ran = arena.play(attack)
    assert_stopped(attack, ran)
    assert ran.run.isolation == "kill"


@pytest.mark.parametrize("arena", ["docker", "podman"], indirect=True)
@pytest.mark.parametrize("drawn", MODULES[::8], ids=str)
@needs("docker")
@needs("podman")
def test_reads_are_watched_there_as_well(arena: Arena, drawn: Drawn) -> None:
    ran = arena.play(drawn.attack)
    assert_named(ran)
    assert ran.run.reads == "watched"
