"""What tasks ask for and a backend cannot enforce, told once before the first trial."""

import asyncio

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.model.job import AgentOptions, JobSpec, TrialOptions
from seatrial.sandbox.api import Capabilities
from seatrial.testing.fake import FakeBackend, answer
from tests.backends.stand_ins import stand_in
from tests.trial.support import write_task

USER = Capabilities(
    backend="fake",
    isolation="namespaces",
    mode="user",
    limits=frozenset({"storage_mb"}),
    networks=frozenset({"none", "public", "allowlist", "host"}),
    guarded_phases=True,
    own_system=True,
    missing={"memory_mb": "no control group for memory; run as root", "cpus": "no control group; run as root"},
)


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of three tasks, two of which want limits, on a machine that has none of them."""
    made: list[FakeBackend] = []

    def make() -> FakeBackend:
        backend = FakeBackend(lambda *_: answer(), files={"/logs/verifier/reward.txt": b"1"}, capabilities=USER)
        made.append(backend)
        return backend

    stand_in(monkeypatch, make)
    write_task(tmp_path / "tasks/a", toml="[environment]\nmemory_mb = 512\ncpus = 1\n")
    write_task(tmp_path / "tasks/b", toml="[environment]\n[verifier.environment]\nmemory_mb = 512\n")
    write_task(tmp_path / "tasks/c", toml="[environment]\nstorage_mb = 100\n")

    def run(folder="job", **options):
        spec = JobSpec(
            name="j",
            tasks=(str(tmp_path / "tasks"),),
            agents=(AgentOptions(name="noop"),),
            trial=TrialOptions(image="host", **options),
        )
        return asyncio.run(run_prepared(prepare_job(spec, tmp_path / folder)))

    return run, made


def test_one_message_before_the_start_with_the_choice(job, tmp_path):
    run, made = job
    with pytest.raises(HostUnsupportedError) as refused:
        run()
    head, *lines, choice, way = str(refused.value).splitlines()
    assert "nothing has been run" in head
    assert lines == [
        "  cpus (a): no control group",
        "  memory_mb (2 tasks, such as a): no control group for memory",
    ]
    assert "--allow-partial-limits" in choice
    assert way == "  run as root"
    assert made[0].sandboxes == []
    assert not (tmp_path / "job").exists()


def test_the_choice_works(job):
    run, _ = job
    assert run(enforcement="partial").finished == 3


def test_networks_count_as_well(job, monkeypatch):
    run, _ = job
    closed = Capabilities(backend="fake", isolation="none", mode="x", networks=frozenset({"host"}))
    stand_in(monkeypatch, lambda: FakeBackend(lambda *_: answer(), capabilities=closed))
    with pytest.raises(HostUnsupportedError, match=r"network 'public' \(3 tasks, such as a\)"):
        run()
