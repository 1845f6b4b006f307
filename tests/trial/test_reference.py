"""The task's own solution tells what is normal: it is run once per task, where a trial would be disputed."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from seatrial.model.record import FileChanges
from seatrial.sandbox.api import Sandbox
from seatrial.trial.end_state import run_up_to
from seatrial.trial.reference import TaskReference, reference_of
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import Verification
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, Ran, trial_spec, write_task

pytestmark = needs_root

IMPROVE = "printf '#!/bin/sh\\necho improved\\n' > /usr/bin/setsid; chmod 755 /usr/bin/setsid"
OTHERWISE = "printf '#!/bin/sh\\nprintf improved\\n' > /usr/bin/setsid; chmod 755 /usr/bin/setsid"
TEST = '#!/bin/sh\nif [ "$(setsid)" = improved ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
DONE = f"echo done > {ANSWER}"


def files_of(solution: str) -> dict[str, str]:
    return {"tests/test.sh": TEST, "solution/solve.sh": f"#!/bin/sh\n{solution}\n"}


def test_what_the_solution_changes_too_stays_and_is_named_where_it_is_otherwise(desk: Desk):
    same = desk.attack(f"{DONE}; {IMPROVE}", files=files_of(IMPROVE))
    assert (same.reward, same.record.disputed_reward, same.run.appeal) == (1.0, None, None)
    assert (same.run.trust, same.run.reference_units, same.run.restored) == ("reference", (), ())
    assert "reference_units" not in same.tags
    other = desk.attack(f"{DONE}; {OTHERWISE}", files=files_of(IMPROVE))
    assert (other.reward, other.record.disputed_reward) == (1.0, None)
    assert other.run.reference_units == ("/usr/bin/setsid",)
    assert "reference_units" in other.tags


def test_what_it_does_not_change_is_put_back_and_disputed_as_ever(desk: Desk):
    ran = desk.attack(f"{DONE}; {IMPROVE}", files=files_of("echo x >> /usr/bin/cmp"))
    assert (ran.reward, ran.record.disputed_reward, ran.run.trust) == (0.0, 1.0, "image")
    assert ran.run.restored == ("/usr/bin/setsid",)


@pytest.mark.parametrize(
    ("files", "options"),
    sampled(
        [
            ({"tests/test.sh": TEST}, {}),
            (files_of(f"{IMPROVE}; exit 3"), {}),
            (files_of(f"{IMPROVE}; sleep 60"), {"agent_timeout_sec": 1.0}),
        ]
    ),
    ids=["none", "fails", "too long"],
)
def test_a_solution_that_is_missing_fails_or_takes_too_long_tells_nothing(desk: Desk, files, options):
    ran = desk.attack(f"{DONE}; {IMPROVE}", files=files, **options)
    assert (ran.reward, ran.record.disputed_reward, ran.run.trust) == (0.0, 1.0, "image")


def test_no_solution_is_run_for_trials_that_nobody_disputes(desk: Desk):
    content = {**files_of(f"{IMPROVE} # content"), "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}
    other = files_of(f"{IMPROVE} # not asked")
    root = write_task(desk.new_folder() / "task", files=other)
    for reward, ran in (
        (1.0, desk.attack(f"{DONE}; {IMPROVE}", files=content)),
        (0.0, desk.run(root, DONE)),
        (0.0, desk.run(root, f"{DONE}; ldconfig")),
        (0.0, desk.run(root, f"{DONE}; echo x >> /usr/share/mine")),
        (1.0, desk.run(root, "oracle")),
    ):
        assert (ran.reward, (ran.folder / "reference").exists()) == (reward, False)
    assert (desk.run(root, f"{DONE}; {IMPROVE}").folder / "reference").exists()


def test_it_is_run_once_for_all_trials_of_a_task(desk: Desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task", files=files_of(f"{IMPROVE} # once")), f"{DONE}; {IMPROVE}")
    folders = [tmp_path / str(number) for number in range(4)]

    async def run() -> list[float]:
        for folder in folders:
            folder.mkdir()
        async with asyncio.TaskGroup() as group:
            trials = [group.create_task(run_trial(spec, Machinery(desk.backend), folder)) for folder in folders]
        return [found.reward for trial in trials if (found := trial.result().evaluation)]

    assert desk.wait(run()) == [1.0] * 4
    assert sum((folder / "reference").exists() for folder in folders) == 1


def test_a_step_is_asked_about_after_the_solutions_of_those_before(desk: Desk):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {f"steps/{name}/instruction.md": f"Do {name}.\n" for name in ("one", "two")}
    files |= {"steps/one/tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}
    files |= {"steps/two/tests/test.sh": TEST}
    files |= {"steps/one/solution/solve.sh": f"#!/bin/sh\n{IMPROVE}\n"}
    files |= {"steps/two/solution/solve.sh": "#!/bin/sh\n[ -x /usr/bin/setsid ] && [ $(setsid) = improved ]\n"}
    ran: Ran = desk.attack(f"{DONE}; {OTHERWISE}", files=files, toml=toml)
    two = ran.record.steps[1].verifier_run
    assert two is not None
    assert (ran.reward, ran.record.disputed_reward, two.trust) == (1.0, None, "reference")


def test_a_link_is_the_solution_s_only_if_it_leads_to_the_same(desk: Desk):
    """What is no tool of verifiers may be another link; one that is must lead to what the solution leaves, too."""
    link = "ln -sf /app/cmp /usr/bin/cmp"
    files = {
        **files_of(f"{IMPROVE.replace('/usr/bin/setsid', '/app/cmp')}; {link}"),
        "tests/test.sh": TEST.replace("setsid", "cmp"),
    }
    away = OTHERWISE.replace("/usr/bin/setsid", "/app/cmp")
    ran = desk.attack(f"{DONE}; {away}; {link}", files=files)
    assert (ran.reward, ran.record.disputed_reward) == (0.0, 1.0)


def test_what_the_verifier_reads_there_is_asked_of_whoever_knows(desk: Desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task", files=files_of(f"{DONE}; {IMPROVE}")), DONE)
    seen: list[FileChanges] = []

    async def read(verification: Verification, sandbox: Sandbox) -> frozenset[str]:
        seen.append(verification.work.found)
        assert await sandbox.processes() == ()
        return frozenset({ANSWER})

    async def ask() -> tuple[TaskReference | None, TaskReference | None]:
        async with AsyncExitStack() as stack:
            _, asked = await run_up_to(spec, Machinery(desk.backend), None, tmp_path / "trial", stack)
            first = await reference_of(asked, Machinery(desk.backend), read)
            return first, await reference_of(asked, Machinery(desk.backend), read)

    first, again = desk.wait(ask())
    assert first is again
    assert first is not None
    assert first.reads == {ANSWER}
    assert "/usr/bin/setsid" in first.changes.modified
    assert first.system.has("/usr/bin/setsid")
    assert [ANSWER in changes.added for changes in seen] == [True]
