"""A job of somebody else is described in plain words and gone on with only by the user's word."""

import json
import shutil

import pytest

from seatrial.errors import JobError
from seatrial.jobs.prepare import prepare_job, prepare_resume
from seatrial.jobs.trust import describe
from seatrial.model.job import AgentOptions, ModelOptions, TrialOptions
from tests.jobs.samples import job_spec


@pytest.fixture
def tamper(make_job):
    """Changes a table of the job.json of a new job, as somebody else would; returns its folder."""

    def change(table, **values):
        folder = make_job().store.path
        file = json.loads((folder / "job.json").read_text())
        file["spec"][table].update(values)
        (folder / "job.json").write_text(json.dumps(file))
        return folder

    return change


def test_ones_own_job_goes_on_also_moved_and_copied(make_job, tmp_path):
    folder = make_job().store.path
    assert len(prepare_resume(folder).trials) == 3
    assert len(prepare_resume(shutil.copytree(folder, tmp_path / "copy")).trials) == 3
    assert len(prepare_resume(folder.rename(tmp_path / "moved")).trials) == 3


def test_an_extended_job_is_still_ones_own(make_job, spec):
    folder = make_job().store.path
    more = spec.model_copy(update={"attempts": 2})
    prepare_resume(folder, spec=more, extend=True)
    assert len(prepare_resume(folder).trials) == 6


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("trial", {"backend": "local"}, "backend 'local', WITHOUT a sandbox"),
        ("trial", {"image": "/etc"}, "all tasks run in the image or folder '/etc'"),
        ("trial", {"allow_env": ["SECRET"]}, "tasks get your variables 'SECRET'"),
        (
            "model",
            {"upstream": "openai:http://evil.example/v1,key=OPENAI_API_KEY"},
            "go to the upstream 'openai:http://evil",
        ),
        ("model", {"prices": "/etc/shadow"}, "prices are read from '/etc/shadow'"),
    ],
)
def test_a_job_that_somebody_changed_is_refused_with_what_it_says(tamper, table, values, said):
    folder = tamper(table, **values)
    with pytest.raises(JobError) as refused:
        prepare_resume(folder)
    assert said in str(refused.value)
    assert f"`seatrial resume {folder} --trust-job`" in str(refused.value)


def test_the_users_word_counts_for_what_was_said_and_is_remembered(tamper):
    folder = tamper("trial", network="none")
    assert len(prepare_resume(folder, trust_job=True).trials) == 3
    assert len(prepare_resume(folder).trials) == 3
    again = (folder / "job.json").read_text().replace('"none"', '"task"')
    (folder / "job.json").write_text(again)
    with pytest.raises(JobError, match="--trust-job"):
        prepare_resume(folder)


def test_a_job_without_a_seal_is_as_if_somebody_else_had_made_it(make_job):
    folder = make_job().store.path
    (folder / "job.seal").unlink()
    with pytest.raises(JobError, match="was not made by you on this machine"):
        prepare_resume(folder)


def test_where_no_key_can_be_kept_jobs_run_and_their_resumption_takes_a_word(spec, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    job = prepare_job(spec, tmp_path / "job")
    assert "--trust-job" in job.notices[-1]
    with pytest.raises(JobError, match="--trust-job"):
        prepare_resume(job.store.path)
    assert len(prepare_resume(job.store.path, trust_job=True).trials) == 3


def test_everything_that_concerns_the_user_is_described_and_steers_no_terminal():
    spec = job_spec(
        tasks=("/tasks",),
        agents=(
            AgentOptions(
                name="command", command="x\x1b[2J", setup="y", env={"A": "${KEY}", "B": "${OTHER:-}", "C": "c"}
            ),
        ),
        trial=TrialOptions(
            backend="docker", image_map={"a": "/b"}, private_hosts="allow", enforcement="partial", allow_env=("X", "Y")
        ),
        model=ModelOptions(upstream="scripted:/f", prices="/p"),
    )
    assert describe(spec) == [
        "backend 'docker'",
        "tasks are read from '/tasks'",
        "'/b' is the image or folder in place of 'a'",
        "tasks get your variables 'X', 'Y'",
        "tasks may reach services of this machine and its network",
        "limits and networks that cannot be enforced here are left out",
        "model calls, with your key, go to the upstream 'scripted:/f'",
        "prices are read from '/p'",
        r"the agent 'command' runs 'x\x1b[2J'",
        "the agent 'command' is set up by 'y'",
        "the agent 'command' gets your variables 'KEY', 'OTHER'",
    ]
