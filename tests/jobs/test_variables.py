"""Which variables a job needs, said before it starts: an agent's are the user's word, a task's have to be allowed."""

import pytest

from seatrial.errors import JobError
from seatrial.jobs.variables import check_variables
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.tasks.load import load_task

NOOP = AgentOptions(name="noop")
ORACLE = AgentOptions(name="oracle")
HOST = {"TOKEN": "t", "OTHER": "o", "OPENAI_API_KEY": "k"}


@pytest.fixture
def check(make_task):
    def check(toml, *agents, allow=(), upstream=None, host=HOST):
        config = load_task(make_task("one", toml=toml)).config
        return check_variables({"one": config}, agents or [NOOP], TrialOptions(allow_env=allow), upstream, host)

    return check


def test_what_was_not_allowed_is_refused_with_the_task_and_the_way(check):
    with pytest.raises(JobError) as refused:
        check('environment.env.A = "${TOKEN}"\nverifier.env.B = "${UNSET}"\n')
    assert str(refused.value).splitlines()[1:] == [
        "  TOKEN (for one): it is not allowed; --allow-env TOKEN lets tasks have it",
        "  UNSET (for one): it is not set; export it, and let tasks have it with --allow-env UNSET",
    ]


def test_what_was_allowed_and_is_set_is_fine(check):
    assert check('environment.env.A = "${TOKEN}"\n', allow=("TOKEN",)) == []
    with pytest.raises(JobError, match=r"UNSET \(for one\): it is not set; export it$"):
        check('environment.env.A = "${UNSET}"\n', allow=("UNSET",))


def test_a_default_is_used_instead_and_told(check):
    (notice,) = check('environment.env.A = "${TOKEN:-none}"\nverifier.env.B = "${UNSET:-none}"\n')
    assert notice.startswith(
        "TOKEN (for one): it is set here, tasks use their own default: it is not allowed; --allow-env"
    )


def test_no_task_gets_a_providers_key_allowed_or_not(check):
    with pytest.raises(JobError, match="OPENAI_API_KEY is the key of a model provider, which no task gets"):
        check('verifier.env.A = "${OPENAI_API_KEY}"\n')
    with pytest.raises(JobError, match="cannot be allowed:\n  OPENAI_API_KEY is the key"):
        check("", allow=("OPENAI_API_KEY",))
    with pytest.raises(JobError, match="cannot be allowed:\n  TOKEN is the key"):
        check("", allow=("TOKEN",), upstream="https://models.example/v1,key=TOKEN")
    (notice,) = check('verifier.env.A = "${OPENAI_API_KEY:-}"\n')
    assert "--allow-env" not in notice


def test_an_agents_own_variables_are_the_users_word(check):
    agent = AgentOptions(name="command", command="true", env={"KEY": "${OPENAI_API_KEY}", "T": "${TOKEN}"})
    assert check("", agent) == []
    with pytest.raises(JobError, match=r"TOKEN \(for one\): it is not set; export it$"):
        check("", agent, host={"OPENAI_API_KEY": "k"})


def test_what_the_solution_takes_is_the_tasks_word(check):
    toml = 'solution.env.A = "${TOKEN}"\n'
    assert check(toml, NOOP) == []
    with pytest.raises(JobError, match=r"TOKEN .*it is not allowed"):
        check(toml, ORACLE)
    assert check(toml, ORACLE, allow=("TOKEN",)) == []
    # The same words on the command line are the user's, whatever the task says.
    assert check(toml, AgentOptions(name="command", command="true", env={"A": "${TOKEN}"})) == []


@pytest.mark.parametrize("name", ["*", "TOK*", "A=B", "A B", "", "1A", "A\n"])
def test_only_whole_names_can_be_allowed(name):
    with pytest.raises(ValueError, match="allow_env"):
        TrialOptions(allow_env=(name,))
