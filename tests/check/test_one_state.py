"""Which end state a path means, and what may be taken from the job that it is of."""

import shutil

import pytest

from seatrial.check.one_state import find_round, find_source
from seatrial.errors import UsageError
from seatrial.model.base import to_json
from seatrial.model.job import JobSpec
from seatrial.store.seal import SEAL
from seatrial.tasks.load import load_task
from tests.cli.job_folders import make_job, record
from tests.conftest import MakeTask


def test_a_path_means_what_lies_there(tmp_path):
    assert find_source(None).kind == "untouched"
    assert find_source(tmp_path).kind == "files"
    archive = tmp_path / "snapshot.tar.zst"
    archive.write_bytes(b"")
    assert (find_source(archive).kind, find_source(archive).path) == ("snapshot", archive)
    (tmp_path / "record.json").write_bytes(to_json(record("t", 1.0)))
    for path in (tmp_path, archive):
        source = find_source(path)
        assert (source.kind, source.path, source.job) == ("trial", tmp_path, None)
        assert source.agent.name == "noop"


def test_what_is_no_end_state_is_named(tmp_path):
    (tmp_path / "job.json").touch()
    with pytest.raises(UsageError, match="is the folder of a job; name one of its trials"):
        find_source(tmp_path)
    with pytest.raises(UsageError, match="nowhere: no end state is there; name a folder"):
        find_source(tmp_path / "nowhere")
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(UsageError, match=r"record\.json: is not the record of a trial"):
        find_source(tmp_path)


def test_the_image_comes_from_ones_own_job_and_from_nobody_elses(tmp_path):
    store = make_job(tmp_path / "job", record("task-a", 1.0))
    (trial,) = (tmp_path / "job/trials").iterdir()
    store.update(store.file.model_copy(update={"spec": _with_image(store.file.spec)}))
    source = find_source(trial)
    assert source.options["image"] == "host"
    assert "allow_env" not in source.options
    assert source.agent.name == "oracle"
    (tmp_path / "job" / SEAL).unlink()
    assert (find_source(trial).options, find_source(trial).agent.name) == ({}, "noop")


def _with_image(spec: JobSpec) -> JobSpec:
    trial = spec.trial.model_copy(update={"image": "host", "allow_env": ("HOME",)})
    return spec.model_copy(update={"trial": trial})


def test_a_task_with_steps_wants_one_named(make_task: MakeTask):
    plain = load_task(make_task())
    assert find_round(plain, None).step is None
    with pytest.raises(UsageError, match="has no step 'one'; its steps are none: the task has no steps"):
        find_round(plain, "one")
    files = {f"steps/{name}/instruction.md": name for name in ("one", "two")}
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    steps = load_task(make_task("steps", toml=toml, files=files, instruction=None))
    assert find_round(steps, "two").name == "two"
    for step, said in ((None, "say which one to judge with --step: one, two"), ("x", "its steps are one, two")):
        with pytest.raises(UsageError, match=said):
            find_round(steps, step)


def test_a_copy_of_a_trial_is_one_too(tmp_path):
    make_job(tmp_path / "job", record("task-a", 1.0))
    (trial,) = (tmp_path / "job/trials").iterdir()
    copied = shutil.copytree(trial, tmp_path / "copied")
    assert (find_source(copied).kind, find_source(copied).job) == ("trial", None)
