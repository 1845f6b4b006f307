"""All attacks on the embedded sandbox: each is stopped, named, and shown to be an attack."""

from itertools import chain

import pytest

from tests.attacks import own_ideas, python_attacks, tool_attacks
from tests.attacks.arena import Arena, assert_stopped
from tests.attacks.attack import BY_MODULE, BY_PYTEST, BY_PYTHON, SHELL, Attack
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root

CLASSES: tuple[tuple[Attack, ...], ...] = (
    *(python_attacks.STARTUP, python_attacks.LIBRARY, python_attacks.PLUGINS, python_attacks.BESIDE),
    *(tool_attacks.PROGRAMS, tool_attacks.LOADERS, tool_attacks.MODULES, tool_attacks.SETTINGS),
    *(own_ideas.LIBRARIES, own_ideas.HOMES, own_ideas.ELSEWHERE, own_ideas.TOOLCHAIN),
)
ATTACKS = tuple(chain.from_iterable(CLASSES))


@pytest.mark.parametrize("attack", sampled(*CLASSES), ids=str)
def test_every_attack_is_stopped_and_named(arena: Arena, attack: Attack) -> None:
    ran = arena.play(attack)
    assert_stopped(attack, ran)
    assert (ran.run.isolation, ran.run.shielded) == ("guarded", True)


@pytest.mark.parametrize("arena", ["userns"], indirect=True)
@pytest.mark.parametrize("attack", sampled(ATTACKS[::12]), ids=str)
def test_so_are_those_on_an_ordinary_users_sandbox(arena: Arena, attack: Attack) -> None:
    assert_stopped(attack, arena.play(attack))


@pytest.mark.parametrize("attack", sampled(ATTACKS[1::20]), ids=str)
def test_and_those_after_which_everything_is_ended(arena: Arena, attack: Attack) -> None:
    ran = arena.play(attack, isolation="kill")
    assert_stopped(attack, ran)
    assert ran.run.isolation == "kill"


@pytest.mark.parametrize(
    "against", sampled([SHELL, BY_PYTHON, BY_PYTEST, BY_MODULE]), ids=["shell", "python", "pytest", "-m"]
)
def test_these_verifiers_know_right_from_wrong(arena: Arena, against: dict[str, str]) -> None:
    honest = Attack("nothing", ":", against)
    right = arena.play(honest, answer="right")
    assert (right.reward, right.run.isolation, right.tags) == (1.0, "guarded", set())
    assert arena.play(honest).reward == 0.0


@pytest.mark.parametrize("attack", sampled(ATTACKS[2::20]), ids=str)
def test_a_right_answer_counts_whatever_was_done_to_the_tools(arena: Arena, attack: Attack) -> None:
    ran = arena.play(attack, answer="right")
    assert ran.reward == 1.0
    assert ran.tags & {"verifier_tools_restored", "hidden_from_verifier"}
