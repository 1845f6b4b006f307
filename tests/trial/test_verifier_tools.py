"""A verifier that lacks a tool of its own: tagged and told where it gave a 0, and never scored otherwise for it."""

import pytest

from seatrial.model.events import Notice
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, Ran

pytestmark = needs_root
REWARD = "/logs/verifier/reward.txt"
GOES_ON = f"pnpm --check || true\nif [ $? = 1 ]; then echo 1; else echo 0; fi > {REWARD}\n"


def judge(desk: Desk, script: str) -> Ran:
    return desk.attack(f"echo right > {ANSWER}", files={"tests/test.sh": script})


def told(ran: Ran) -> list[str]:
    return [event.text for event in ran.events if isinstance(event, Notice)]


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/env bash"])
def test_a_zero_after_a_missing_tool_is_tagged_and_told(desk, shell):
    ran = judge(desk, f"#!{shell}\n{GOES_ON}")
    assert (ran.reward, ran.record.outcome) == (0.0, "fail")
    assert "verifier_tool_missing" in ran.tags
    assert [warning.code for warning in ran.record.warnings] == ["verifier_tool_missing"]
    assert any("could not find pnpm" in line for line in ran.evaluation.validity.errors)
    assert told(ran) == [
        (
            "task: the verifier could not find pnpm and gave 0; "
            "install it in the task's image, or see in its output why the test script could not"
        )
    ]


def test_a_missing_module_of_python_is_tagged(desk):
    ran = judge(desk, f"#!/bin/sh\n/usr/bin/python3 -S -I -m pytest; echo 0 > {REWARD}\n")
    assert any("could not find pytest" in line for line in ran.evaluation.validity.errors)


@pytest.mark.parametrize("interpreter", ["/usr/bin/frobnicate", "/usr/bin/env frobnicate"])
def test_a_missing_interpreter_explains_a_silent_verifier(desk, interpreter):
    ran = judge(desk, f"#!{interpreter}\n")
    assert (ran.record.outcome, ran.tags >= {"verifier_tool_missing", "verifier_broken"}) == ("verifier_error", True)
    assert any("could not find frobnicate" in line for line in ran.evaluation.validity.errors)


def test_a_tool_that_was_not_needed_is_no_matter(desk):
    ran = judge(desk, f"#!/bin/sh\nfrobnicate\necho 1 > {REWARD}\n")
    assert (ran.reward, ran.tags, told(ran)) == (1.0, set(), [])


def test_what_the_agents_program_lacks_is_its_own_matter(desk):
    script = f"#!/bin/sh\nsh /app/run.sh\necho 0 > {REWARD}\n"
    ran = desk.attack("echo frobnicate > /app/run.sh", files={"tests/test.sh": script})
    assert "frobnicate: not found" in ran.text("verifier/stderr.txt")
    assert "verifier_tool_missing" not in ran.tags
