"""`seatrial resume`: only what is left is run; what was added or failed too, when asked."""

import json

import pytest

from seatrial.cli import running
from seatrial.model.base import to_json
from seatrial.model.record import TrialWarning
from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import BROKEN, ScriptedEngine
from tests.conftest import MakeTask


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    """Trials of three tasks; the second is failed by the machinery."""
    made = ScriptedEngine({"crc": 1.0, "volts": BROKEN, "beam": 0.5})
    monkeypatch.setattr(running, "run_prepared", made)
    return made


@pytest.fixture
def job(seatrial: Seatrial, engine: ScriptedEngine, make_task: MakeTask, tmp_path):
    """A job of two tasks that has run."""
    make_task("tasks/crc")
    make_task("tasks/volts")
    assert seatrial("run", "-p", tmp_path / "tasks", "-a", "noop", "-n", 1, "-o", tmp_path / "job").code == 1
    engine.ran.clear()
    return tmp_path / "job"


def test_a_finished_job_runs_nothing_and_shows_its_summary(seatrial: Seatrial, engine: ScriptedEngine, job):
    shown = seatrial("resume", job, "--max-failed", 0.5)
    assert (shown.code, engine.ran) == (0, [])
    assert shown.out.startswith(f"{job}: 2 trials, 2 of them finished before\n")
    assert "1.000" in shown.out


def test_gates_apply_to_the_whole_job(seatrial: Seatrial, job):
    assert seatrial("resume", job).code == 1
    assert seatrial("resume", job, "--max-failed", 1, "--fail-under", 1).code == 0


def test_failed_trials_are_run_again_on_request(seatrial: Seatrial, engine: ScriptedEngine, job):
    engine.script["volts"] = 0.0
    shown = seatrial("resume", job, "--retry-failed", "--json")
    assert shown.code == 0
    assert [name.partition(".")[0] for name in engine.ran] == ["volts"]
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert (events[0]["planned"], events[0]["finished"]) == (2, 1)
    assert events[-1]["summary"]["total"]["mean"] == 0.5


def test_attempts_tasks_and_agents_are_added_on_request(
    seatrial: Seatrial, engine: ScriptedEngine, job, make_task: MakeTask
):
    more = make_task("more/beam")
    shown = seatrial("resume", job, "--extend", "-p", more, "--command", "true", "-k", 2, "--max-failed", 1)
    assert shown.code == 0, shown.err
    assert len(engine.ran) == 3 * 2 * 2 - 2
    assert f"{job}: 12 trials, 2 of them finished before" in shown.out


def test_adding_must_be_asked_for(seatrial: Seatrial, job):
    shown = seatrial("resume", job, "-k", 2)
    assert shown.code == 2
    assert "attempts: was 1, is 2" in shown.err
    assert "--extend" in shown.err


def test_how_it_is_carried_out_may_differ(seatrial: Seatrial, engine: ScriptedEngine, job):
    engine.script["volts"] = 0.0
    assert seatrial("resume", job, "--retry-failed", "-n", 3, "--retries", 0, "--max-wall", "1h").code == 0
    run = engine.jobs[-1].store.file.spec.run
    assert (run.concurrent, run.retries, run.max_wall_sec) == (3, 0, 3600.0)


def test_a_changed_task_is_refused(seatrial: Seatrial, engine: ScriptedEngine, job, tmp_path):
    engine.script["volts"] = 0.0
    (tmp_path / "tasks/volts/instruction.md").write_text("Something else.\n")
    shown = seatrial("resume", job, "--retry-failed")
    assert shown.code == 2
    assert "task volts: its files have changed" in shown.err


@pytest.mark.parametrize("arguments", [["resume"], ["show"], ["show", "--json"], ["gc"]], ids=" ".join)
def test_a_folder_that_is_no_job_is_a_usage_error(seatrial: Seatrial, tmp_path, arguments):
    for folder in (tmp_path, tmp_path / "nowhere"):
        shown = seatrial(*arguments, folder)
        assert (shown.code, shown.out) == (2, "")
        assert str(folder) in shown.err
        assert shown.err.count("Error: ") == 1


def test_a_job_of_somebody_else_is_refused_until_the_user_says_so(seatrial: Seatrial, engine: ScriptedEngine, job):
    (job / "job.seal").unlink()
    refused = seatrial("resume", job)
    assert (refused.code, engine.ran) == (2, [])
    assert "backend 'embedded'" in refused.err
    assert "--trust-job" in refused.err
    assert seatrial("resume", job, "--trust-job", "--max-failed", 1).code == 0
    assert seatrial("resume", job, "--max-failed", 1).code == 0


def test_the_same_agent_named_again_is_the_same_agent(seatrial: Seatrial, engine: ScriptedEngine, job, tmp_path):
    shown = seatrial("resume", job, "--extend", "-p", tmp_path / "tasks", "-a", "noop", "-k", 2, "--max-failed", 1)
    assert (shown.code, len(engine.ran)) == (0, 2), shown.err
    other = seatrial("resume", job, "--extend", "-a", "noop", "-m", "gpt-5")
    assert other.code == 2
    assert "the job has an agent 'noop' already, and not the same: model was None, is 'gpt-5'" in other.err


def test_tasks_with_errors_are_added_by_force(seatrial: Seatrial, engine: ScriptedEngine, job, make_task: MakeTask):
    faulty = make_task("more/beam")
    (faulty / "tests/test.sh").unlink()
    refused = seatrial("resume", job, "--extend", "-p", faulty)
    assert (refused.code, "--force runs them" in refused.err) == (2, True)
    assert seatrial("resume", job, "--extend", "-p", faulty, "--force", "--max-failed", 1).code == 0
    assert [name.partition(".")[0] for name in engine.ran] == ["beam"]


def test_trials_whose_agent_never_really_ran_are_run_again_on_request(seatrial: Seatrial, engine: ScriptedEngine, job):
    assert "so none is run again" in seatrial("resume", job, "--retry-warned", "--max-failed", 1).err
    assert engine.ran == []
    store = JobStore.open(job)
    (path,) = job.glob("trials/crc.*/record.json")
    warning = TrialWarning(code="no_model_call", message="it never called")
    warned = store.record(path.parent.name).model_copy(update={"warnings": (warning,)})
    path.write_bytes(to_json(warned))
    (job / "index.jsonl").unlink()
    assert seatrial("resume", job, "--retry-warned", "--max-failed", 1).code == 0
    assert [name.partition(".")[0] for name in engine.ran] == ["crc"]
    assert [path.name.partition(".")[0] for path in (job / "tries").iterdir()] == ["crc"]


@pytest.mark.parametrize("again", [(), ("--retry-failed",), ("--retry-warned",)])
def test_a_trial_of_a_newer_version_is_left_alone_and_named(
    seatrial: Seatrial, engine: ScriptedEngine, job, again: tuple[str, ...]
):
    trial = next(path for path in (job / "trials").iterdir() if path.name.startswith("crc"))
    newer = (trial / "record.json").read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2')
    (trial / "record.json").write_bytes(newer)
    for line in (
        seatrial("resume", job, "--max-failed", 1, *again).err,
        seatrial("show", job).err,
        seatrial("gc", job).err + seatrial("show", job, "crc").err,
    ):
        assert f"{trial.name} does not count: its record.json has version 2" in line
    assert not [name for name in engine.ran if name.startswith("crc")]
    assert (trial / "record.json").read_bytes() == newer
    assert not (job / "damaged").exists()
    assert "Continue with" not in seatrial("show", job).err


def test_a_trial_that_a_newer_version_judged_again_is_not_run_again(
    seatrial: Seatrial, engine: ScriptedEngine, job, tmp_path
):
    trial = next(path for path in (job / "trials").iterdir() if path.name.startswith("volts"))
    later = job / "revisions" / f"{trial.name}.1"
    later.mkdir(parents=True)
    (later / "record.json").write_text('{"schema_version": 2}')
    assert f"revision 1 of {trial.name} does not count" in seatrial("resume", job, "--retry-failed").err
    assert (engine.ran, trial.is_dir(), later.is_dir()) == ([], True, True)
