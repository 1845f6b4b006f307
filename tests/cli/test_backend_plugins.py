"""A kind of sandbox that a stranger's package brings: found by its name, it is run, examined and tidied up after.

That is all that `backends/named.py` does.
"""

import json
from pathlib import Path

import pytest

from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial
from tests.installed import install
from tests.trial.support import write_task

SHELTER = """
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from seatrial.backends.named import BackendPlugin
from seatrial.sandbox.api import Image
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.runs import Cleared
from seatrial.testing.fake import ALL_POWERFUL, FakeBackend, answer

LEFT = Path(os.environ["SHELTER_LEFT"])


def run(spec, sandbox):
    if spec.phase == "verifier":
        sandbox.files["/logs/verifier/reward.txt"] = b"1"
    return answer()


class Images:
    has_host = False

    async def fetch(self, reference, say):
        return Image(reference, digest="sha256:" + "5" * 64)


@asynccontextmanager
async def open_images(backend, way_out):
    yield Images()


async def examine():
    yield HostFinding("shelter", "works", "it is warm and dry")


async def sweep():
    LEFT.unlink()
    return Cleared((str(LEFT),))


PLUGIN = BackendPlugin(
    lambda: FakeBackend(run, capabilities=replace(ALL_POWERFUL, backend="shelter")), open_images, examine, sweep
)
"""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What a killed run of an installed kind of sandbox has left, on a machine where nothing else is to be found."""
    path = tmp_path / "left"
    path.write_text("")
    monkeypatch.setenv("SHELTER_LEFT", str(path))
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(state))
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(name, f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    install(monkeypatch, tmp_path / "site", "shelter", SHELTER, backends="shelter = PLUGIN")
    return path


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another one, which cannot even be imported."""
    install(monkeypatch, tmp_path / "other", "ruin", "raise RuntimeError('no roof')", backends="ruin = PLUGIN")


@pytest.fixture
def clumsy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another one, whose steps and sweep fail."""
    code = (
        "from seatrial.backends.named import BackendPlugin\n"
        "async def examine():\n    raise KeyError('door')\n    yield\n"
        "async def sweep():\n    raise KeyError('broom')\n"
        "PLUGIN = BackendPlugin(None, None, examine, sweep)\n"
    )
    install(monkeypatch, tmp_path / "other", "clumsy", code, backends="clumsy = PLUGIN")


@pytest.mark.usefixtures("left")
def test_trials_run_in_it_and_in_its_images(seatrial: Seatrial, tmp_path):
    write_task(tmp_path / "task", toml='[environment]\ndocker_image = "hut:2"\nnetwork_mode = "no-network"\n')
    done = seatrial("run", "-p", tmp_path / "task", "-a", "noop", "-e", "shelter", "-o", tmp_path / "job")
    assert done.code == 0, done.err
    store = JobStore.open(tmp_path / "job")
    record = store.record(next(iter(store.finished())))
    assert (record.sandbox.backend, record.sandbox.image) == ("shelter", "hut:2")
    assert record.evaluation is not None
    assert record.evaluation.reward == 1.0


@pytest.mark.usefixtures("broken")
def test_one_that_cannot_be_imported_is_refused_before_the_start(seatrial: Seatrial, tmp_path):
    write_task(tmp_path / "task")
    refused = seatrial("run", "-p", tmp_path / "task", "-a", "noop", "-e", "ruin", "-o", tmp_path / "job")
    assert (refused.code, "the plug-in 'ruin' of seatrial.backends cannot be loaded: no roof" in refused.err) == (
        2,
        True,
    )
    assert not (tmp_path / "job").exists()


@pytest.mark.usefixtures("left", "broken", "clumsy")
def test_the_doctor_examines_it_and_names_the_broken_ones(seatrial: Seatrial):
    shown = [json.loads(line) for line in seatrial("doctor", "--json").out.splitlines()]
    found = {finding["step"]: (finding["status"], finding["detail"]) for finding in shown}
    assert shown[0]["step"] == "kernel"
    assert found["shelter"] == ("works", "it is warm and dry")
    assert found["ruin"] == ("missing", "the plug-in 'ruin' of seatrial.backends cannot be loaded: no roof")
    assert found["clumsy"] == ("fails", "its own steps failed: KeyError: 'door'")


def test_gc_tidies_up_after_it(seatrial: Seatrial, left):
    swept = seatrial("gc")
    assert (swept.code, f"removed {left}\n" in swept.out, left.exists()) == (0, True, False), swept.err


@pytest.mark.usefixtures("broken", "clumsy")
def test_gc_goes_on_after_those_that_are_broken_and_says_so(seatrial: Seatrial, left):
    swept = seatrial("gc")
    assert (swept.code, left.exists()) == (1, False)
    assert "the plug-in 'ruin' of seatrial.backends cannot be loaded: no roof\n" in swept.err
    assert "the backend 'clumsy' failed to tidy up: KeyError: 'broom'\n" in swept.err
