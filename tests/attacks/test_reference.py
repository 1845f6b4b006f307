"""Where the task's own solution changes the system, an attacker gains what the solution touches, and no more.

The solution of these tasks installs a tool of verifiers, a package of Python and one with a plug-in's name, replaces a
program of the image and sets a variable of all logins. Each attack is made after the same work.
"""

from dataclasses import replace

import pytest

from tests.attacks.arena import Arena, assert_stopped
from tests.attacks.attack import BY_PYTEST, BY_PYTHON, FORGE_PY, Attack, append, judged_by, plant, program
from tests.attacks.python_attacks import SITE, STDLIB, compiled
from tests.conftest import sampled
from tests.docker_daemon import needs
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER

pytestmark = needs_root

JQ, SETSID = "/usr/bin/jq", "/usr/bin/setsid"
SEVEN, FINE = "#!/bin/sh\necho 7", "#!/bin/sh\necho fine"
SOLVE = "\n".join(
    [
        plant(JQ, SEVEN),
        plant(SETSID, FINE),
        plant(f"{SITE}/kit/__init__.py", "X = 1"),
        plant(f"{SITE}/kit-1.dist-info/METADATA", "Name: kit"),
        plant(f"{SITE}/pytest_kit/__init__.py", "X = 1"),
        append("/etc/environment", "GREETING=hi"),
        "/usr/bin/python3 -c 'import json'; ldconfig",
    ]
)
SOLUTION = {"solution/solve.sh": f"#!/bin/sh\n{SOLVE}\necho right > {ANSWER}\n"}
BY_JQ = judged_by("jq")
BY_SETSID = judged_by("setsid")
IN_APP = judged_by("cd /app; python3 -c 'import code'")
REWARD = "/logs/verifier/reward.txt"
BACK = frozenset({"verifier_tools_restored"})
TAG = "$(/usr/bin/python3 -c 'import sys; print(sys.implementation.cache_tag)')"
PLUGGY = f"rm -r {SITE}/pluggy/__pycache__; {append(f'{SITE}/pluggy/__init__.py', FORGE_PY)}"
PLUGIN = "[pytest11]\nkit = kit"

ATTACKS = (
    Attack("another interpreter", program("/usr/bin/python3"), BY_PYTHON, BACK, ("/usr/bin/python3",)),
    Attack("the tool itself", program(JQ), BY_JQ, BACK, (JQ,)),
    Attack("the tool as a link", f"{program('/app/jq')}; ln -sf /app/jq {JQ}", BY_JQ, BACK, (JQ,)),
    Attack("the same tool elsewhere", program("/usr/local/bin/jq"), BY_JQ, BACK, ("/usr/local/bin/jq",)),
    Attack("the standard library", append(f"{STDLIB}/json/__init__.py", FORGE_PY), BY_PYTHON, BACK),
    Attack(
        "the standard library's cache",
        compiled(FORGE_PY, f"{STDLIB}/json/__pycache__/__init__.{TAG}.pyc"),
        BY_PYTHON,
        BACK,
    ),
    Attack(
        "a plug-in of the package",
        f"{plant(f'{SITE}/kit-1.dist-info/entry_points.txt', PLUGIN)}\n{plant(f'{SITE}/kit/__init__.py', FORGE_PY)}",
        BY_PYTEST,
        BACK,
        (f"{SITE}/kit-1.dist-info/entry_points.txt",),
    ),
    Attack("the runner", PLUGGY, BY_PYTEST, BACK),
    Attack("a start file", plant(f"{SITE}/sitecustomize.py", FORGE_PY), BY_PYTHON, BACK, proven=False),
    Attack("a module beside the work", plant("/app/code.py", FORGE_PY), IN_APP, hidden=("/app/code.py",)),
)


def solved(attack: Attack) -> Attack:
    """The attack on a task with the solution, after the same work."""
    return replace(attack, command=f"{SOLVE}\n{attack.command}", against={**attack.against, **SOLUTION})


@pytest.mark.parametrize("attack", sampled(ATTACKS), ids=str)
def test_beside_the_solution_s_own_changes_everything_is_the_image_s(arena: Arena, attack: Attack) -> None:
    ran = arena.play(solved(attack))
    assert_stopped(attack, ran)
    assert ran.run.trust == "reference", "the rest of the work stays"
    assert ran.run.reference_units == ()


@pytest.mark.whole
def test_links_as_the_solution_s_lead_to_nothing_of_the_agent_s(arena: Arena) -> None:
    solve = f"{plant('/app/jq', SEVEN)}\nln -sf /app/jq {JQ}"
    files = {**BY_JQ, "solution/solve.sh": f"#!/bin/sh\n{solve}\n"}
    assert_stopped(
        Attack("led astray", "", tags=BACK, restored=(JQ,)),
        arena.play(Attack("led astray", f"{solve}\n{program('/app/jq')}", files)),
    )


@pytest.mark.parametrize("arena", ["docker"], indirect=True)
@needs("docker")
def test_so_it_is_in_containers(arena: Arena) -> None:
    assert_stopped(ATTACKS[1], arena.play(solved(ATTACKS[1])))


@pytest.mark.parametrize("arena", ["docker"], indirect=True)
@needs("docker")
def test_and_the_same_work_keeps_its_reward_there(arena: Arena) -> None:
    script = f'#!/bin/sh\n[ "$(setsid)$(jq)" = fine7 ] && r=1 || r=0\necho $r > {REWARD}\n'
    ran = arena.play(solved(Attack("nothing", ":", {"tests/test.sh": script})))
    assert (ran.reward, ran.record.disputed_reward, ran.run.trust) == (1.0, None, "reference")


@pytest.mark.whole
def test_a_survivor_s_files_are_not_compared_for_they_may_change(arena: Arena) -> None:
    stays = "/bin/sh -c 'while sleep 1; do :; done' > /dev/null 2>&1 < /dev/null &"
    ran = arena.play(solved(Attack("kept busy", stays, BY_JQ)))
    assert "processes_left_running" in ran.tags
    assert JQ in ran.run.restored


def test_a_program_of_the_solution_s_is_gained_and_named(arena: Arena) -> None:
    """The limit of the rule: what the task is about, and no tool that verifiers are written with."""
    ran = arena.play(solved(Attack("gained", program(SETSID), BY_SETSID)))
    assert (ran.reward, ran.run.reference_units) == (1.0, (SETSID,))
    assert "reference_units" in ran.tags
