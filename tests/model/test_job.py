"""What people may ask of a job, and the form in which it is stored."""

import pytest

from seatrial.errors import UsageError
from seatrial.model.base import to_json
from seatrial.model.job import AgentOptions, JobFile, RunOptions
from tests.jobs.samples import job_file, job_spec


def test_the_stored_form_is_read_again():
    file = job_file(("add", "größer"), attempts=3, run=RunOptions(concurrent=4, max_wall_sec=60.0))
    assert JobFile.model_validate_json(to_json(file)) == file


def test_an_agent_is_called_by_its_label():
    assert AgentOptions(name="command").title == "command"
    assert AgentOptions(name="command", label="mine").title == "mine"


def test_agents_must_be_told_apart():
    twice = (AgentOptions(name="command", command="a"), AgentOptions(name="command", command="b"))
    with pytest.raises(UsageError, match="two agents are called 'command'; give one of them a `label`"):
        job_spec(agents=twice)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "../escape"},
        {"name": "-rf"},
        {"tasks": ()},
        {"agents": ()},
        {"attempts": 0},
        {"attempts": True},
        {"unknown": 1},
    ],
)
def test_what_makes_no_sense_is_refused(changes):
    with pytest.raises(UsageError):
        job_spec(**changes)


@pytest.mark.parametrize("options", [{"concurrent": 0}, {"retries": -1}, {"max_trials": 0}, {"max_wall_sec": 0.0}])
def test_budgets_are_positive(options):
    with pytest.raises(UsageError):
        RunOptions(**options)
