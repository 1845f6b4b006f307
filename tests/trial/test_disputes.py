"""Verdicts that depend on whose system is believed: both are kept, and the lower one counts unless somebody says so."""

import json

import pytest

from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, INSTRUCTION, Desk, write_task

pytestmark = needs_root

# What nobody named was improved: a program of the image says something else now.
IMPROVE = "printf '#!/bin/sh\\necho improved\\n' > /usr/bin/cmp; chmod 755 /usr/bin/cmp"
WANTS_IMPROVED = """#!/bin/sh
if [ "$(cmp)" = improved ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
FILES = {"tests/test.sh": WANTS_IMPROVED}
DONE = f"echo done > {ANSWER}"


def test_the_lower_verdict_counts_and_the_other_is_kept(desk: Desk):
    ran = desk.attack(f"{DONE}; {IMPROVE}", files=FILES)
    assert (ran.reward, ran.record.outcome, ran.record.disputed_reward) == (0.0, "fail", 1.0)
    assert ran.run.restored == ("/usr/bin/cmp",)
    assert ran.run.appeal is not None
    assert (ran.run.appeal.reward, ran.run.trust) == (1.0, "image")
    assert ran.tags >= {"disputed_verdict", "verifier_tools_restored", "program_changed"}
    assert ran.text("verifier/files/reward.txt").strip() == "0"
    assert ran.text("verifier/as-left/files/reward.txt").strip() == "1"
    assert json.loads(ran.text("verifier/system.json"))["put_back"] == {"/usr/bin/cmp": "of the image"}


def test_a_verdict_is_disputed_without_an_output_too(desk: Desk):
    ran = desk.attack(IMPROVE, files=FILES)
    assert (ran.reward, ran.record.outcome, ran.record.disputed_reward) == (0.0, "no_output", 1.0)


def test_a_second_verdict_that_is_no_better_is_no_dispute(desk: Desk):
    test = "#!/bin/sh\necho 0.25 > /logs/verifier/reward.txt\n"
    ran = desk.attack(f"{DONE}; {IMPROVE}", files={"tests/test.sh": test})
    assert (ran.reward, ran.record.disputed_reward) == (0.25, None)
    assert ran.run.appeal is not None
    assert ran.run.appeal.reward == 0.25


def test_nobody_is_asked_again_who_is_content_or_met_everything(desk: Desk):
    content = {"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}
    assert desk.attack(f"{DONE}; {IMPROVE}", files=content).run.appeal is None
    assert desk.attack(f"{DONE}; touch /usr/share/mine", files=FILES).run.appeal is None


def test_a_pass_threshold_is_a_pass(desk: Desk):
    half = {"tests/test.sh": WANTS_IMPROVED.replace("echo 0", "echo 0.5")}
    assert desk.attack(f"{DONE}; {IMPROVE}", files=half, pass_threshold=0.5).run.appeal is None
    assert desk.attack(f"{DONE}; {IMPROVE}", files=half).record.disputed_reward == 1.0


@pytest.mark.parametrize(
    ("toml", "options"), [('[verifier]\nsystem = "agent"\n', {}), ("", {"trust": "as_left"})], ids=["task", "run"]
)
def test_the_task_or_the_run_may_want_the_system_as_the_agent_left_it(desk: Desk, toml, options):
    ran = desk.attack(f"{DONE}; {IMPROVE}", files=FILES, toml=toml, **options)
    assert (ran.reward, ran.record.disputed_reward, ran.run.trust) == (1.0, None, "as_left")
    assert ran.run.restored == ()
    assert "system_changed" in ran.tags


def test_what_the_instruction_names_is_not_put_back(desk: Desk):
    root = write_task(
        desk.new_folder() / "task", files={"tests/test.sh": WANTS_IMPROVED.replace("(cmp)", "(/usr/local/bin/report)")},
        instruction=f"{INSTRUCTION} Mend the program `report`.",
    )  # fmt: skip
    mend = IMPROVE.replace("/usr/bin/cmp", "/usr/local/bin/report")
    ran = desk.run(root, f"{DONE}; {mend}")
    assert (ran.reward, ran.record.disputed_reward, ran.run.restored) == (1.0, None, ())


def test_the_author_s_own_solution_is_believed_and_the_task_told_what_it_lacks(desk: Desk):
    files = {**FILES, "solution/solve.sh": f"#!/bin/sh\n{DONE}; {IMPROVE}\n"}
    ran = desk.run(write_task(desk.new_folder() / "task", files=files), "oracle")
    assert (ran.reward, ran.record.disputed_reward, ran.run.trust) == (1.0, None, "as_left")
    assert "needs_system_of_agent" in ran.tags
    assert [warning.code for warning in ran.record.warnings] == ["needs_system_of_agent"]
    toml = '[verifier]\nsystem = "agent"\n'
    told = desk.run(write_task(desk.new_folder() / "task", files=files, toml=toml), "oracle")
    assert (told.reward, told.record.warnings) == (1.0, ())


def test_steps_are_disputed_each_and_together(desk: Desk):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {f"steps/{name}/instruction.md": f"Do {name}.\n" for name in ("one", "two")}
    files |= {"steps/one/tests/test.sh": WANTS_IMPROVED}
    files |= {"steps/two/tests/test.sh": "#!/bin/sh\necho 0.5 > /logs/verifier/reward.txt\n"}
    ran = desk.attack(IMPROVE, files=files, toml=toml)
    assert (ran.reward, ran.record.disputed_reward) == (0.25, 0.75)
    one, two = ran.record.steps
    assert one.verifier_run is not None
    assert one.verifier_run.appeal is not None
    assert two.verifier_run is not None
    assert two.verifier_run.restored == ("/usr/bin/cmp",), "what an earlier step did is no part of the image"


def test_nobody_is_asked_again_for_the_sake_of_a_cache(desk: Desk):
    ran = desk.attack(f"{DONE}; mkdir -p /root/.cache/pip; echo x > /root/.cache/pip/y; ldconfig", files=FILES)
    assert ran.run.restored_count > 0
    assert (ran.reward, ran.run.appeal) == (0.0, None)
