"""How much memory a trial counts for before it may start."""

import pytest

from seatrial.jobs.places import memory_of
from seatrial.model.job import TrialOptions
from seatrial.tasks.load import load_task

OWN = "[environment]\nmemory_mb = 100\n"
SEPARATE = f'{OWN}[verifier]\nenvironment_mode = "separate"\n'


@pytest.mark.parametrize(
    ("toml", "options", "memory_mb"),
    [
        (OWN, {}, 100),
        (OWN, {"memory_mb": 700}, 700),
        ("", {}, 0),
        (SEPARATE, {}, 200),
        (SEPARATE, {"memory_mb": 700}, 1400),
        (f"{SEPARATE}[verifier.environment]\nmemory_mb = 50\n", {"memory_mb": 700}, 750),
        (OWN, {"isolation": "separate"}, 200),
    ],
)
def test_memory_of_a_trial(make_task, toml, options, memory_mb):
    assert memory_of(load_task(make_task(toml=toml)), TrialOptions(**options)) == memory_mb
