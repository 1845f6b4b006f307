"""Trying an attack: run it as an agent in its place, and say what every attack must have come to."""

import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from seatrial.sandbox.api import Image
from tests.attacks.attack import Attack
from tests.attacks.workshop import OneImage
from tests.trial.support import ANSWER, Desk, Ran, trial_spec, write_task

# Every trace of an attack is one of these; which one, the tables say.
NAMING = frozenset(
    {
        "verifier_tools_restored",
        "hidden_from_verifier",
        "changes_truncated",
        "changed_during_verification",
        "processes_left_running",
        "planted_verifier_files",
    }
)


@dataclass(frozen=True, slots=True)
class Arena:
    """A desk, and the image of most attacks."""

    desk: Desk
    image: Image

    def play(self, attack: Attack, answer: str = "wrong", **options: Any) -> Ran:
        """Run an agent that leaves an answer and then attacks."""
        lacking = [name for name in attack.needs if shutil.which(name) is None]
        if lacking:
            pytest.skip(f"no {lacking[0]} on this machine")
        task = write_task(self.desk.new_folder() / "task", files=attack.against, toml=attack.toml)
        spec = trial_spec(task, f"echo {answer} > {ANSWER}\n{attack.command}", **options)
        images: dict[str, Any] = {"images": OneImage(self.image)} if attack.place == "workshop" else {}
        return self.desk.run_spec(spec, **images)


def assert_stopped(attack: Attack, ran: Ran) -> None:
    """The attack was carried out, forged nothing, and is named; it would have worked, had nobody put things right."""
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    assert (ran.reward, ran.record.outcome) == (0.0, "fail")
    assert ran.tags & NAMING
    assert ran.tags >= attack.tags
    assert set(ran.run.restored) >= set(attack.restored)
    assert set(ran.run.hidden) >= set(attack.hidden)
    if attack.proven:
        assert ran.record.disputed_reward == 1.0, "this is no attack: it does not work on the system as it was left"
        assert "disputed_verdict" in ran.tags
