"""An agent that leaves a wrong answer and something that is to make it look right: each of these scores 0.0."""

import pytest

from tests.attacks.attack import PYTHON, SHELL, Attack
from tests.attacks.classic import HOOKS, ONCE_WORKED, PLANTED, PROGRAMS, PYTEST, PYTEST_HOOKS
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import ANSWER, Desk, Ran

pytestmark = [needs_root, needs_python]


def strike(desk: Desk, attack: Attack, **options: str) -> Ran:
    ran = desk.attack(f"echo wrong > {ANSWER}\n{attack.command}", files=attack.against, **options)
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    return ran


@pytest.mark.parametrize("attack", sampled(HOOKS, PROGRAMS, PYTEST_HOOKS), ids=str)
def test_what_takes_over_the_verifiers_tools_is_put_back(desk, attack):
    ran = strike(desk, attack)
    assert ran.reward == 0.0
    assert ran.record.outcome == "fail"
    assert ran.tags >= attack.tags
    assert {*ran.run.restored, *ran.run.hidden} >= set(attack.restored)
    assert ran.run.isolation == "guarded"
    assert ran.run.shielded == bool(ran.run.restored or ran.run.hidden)
    assert bool(ran.run.restored) == ("verifier_tools_restored" in ran.tags)


@pytest.mark.parametrize("attack", sampled(PLANTED), ids=str)
def test_what_lies_where_the_verifier_works_is_not_there_for_it(desk, attack):
    ran = strike(desk, attack)
    assert ran.reward == 0.0
    assert ran.tags >= attack.tags
    assert ran.run.isolation == "guarded"


def test_a_planted_reward_is_not_taken_for_that_of_a_verifier_that_wrote_none(desk):
    ran = strike(desk, PLANTED[0])
    assert ran.record.outcome == "verifier_error"
    assert ran.provenance.reward_file is None


@pytest.mark.parametrize("attack", sampled(ONCE_WORKED), ids=str)
def test_what_looks_like_honest_work_is_not_there_for_the_verifier(desk, attack):
    ran = strike(desk, attack)
    assert (ran.reward, ran.record.outcome, ran.record.disputed_reward) == (0.0, "fail", 1.0)
    assert ran.tags >= attack.tags | {"disputed_verdict"}
    assert ran.run.restored or ran.run.hidden


@pytest.mark.parametrize("attack", sampled(ONCE_WORKED), ids=str)
def test_in_a_sandbox_of_its_own_a_verifier_meets_none_of_that(desk, attack):
    ran = desk.attack(
        f"echo wrong > {ANSWER}\n{attack.command}",
        files=attack.against,
        toml=f'artifacts = ["{ANSWER}"]\n[environment]\nnetwork_mode = "no-network"\n',
        isolation="separate",
    )
    assert ran.reward == 0.0
    assert ran.record.outcome == "fail"
    assert ran.tags >= attack.tags


@pytest.mark.parametrize("against", sampled([SHELL, PYTHON, PYTEST]), ids=["shell", "python", "pytest"])
def test_these_verifiers_know_right_from_wrong(desk, against):
    right = desk.attack(f"echo right > {ANSWER}", files=against)
    assert (right.reward, right.run.isolation, right.tags) == (1.0, "guarded", set())
    assert desk.attack(f"echo wrong > {ANSWER}", files=against).reward == 0.0


@pytest.mark.parametrize("attack", sampled(PROGRAMS[:5]), ids=str)
def test_a_right_answer_counts_however_the_tools_were_treated(desk, attack):
    ran = desk.attack(f"{attack.command}\nPATH=/usr/bin; echo right > {ANSWER}", files=attack.against)
    assert ran.reward == 1.0
    assert ran.tags >= attack.tags
