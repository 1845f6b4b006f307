"""A layer of the user's own: locked by what is in it, and refused once it is something else."""

import gzip
import io

import pytest

from seatrial.errors import AgentSetupError, JobError
from seatrial.images.baking.own_layer import has_changed, lock_layer, pack_layer
from seatrial.model.job import AgentLayer
from tests.images.support import archive, entry


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree/opt").mkdir(parents=True)
    (tmp_path / "tree/opt/note").write_text("words")
    return tmp_path / "tree"


def test_a_folder_and_a_compressed_archive_are_known_by_the_same_digest(tree, tmp_path):
    (tmp_path / "tree.tar.gz").write_bytes(gzip.compress(archive([entry("opt/note", content=b"words")])))
    locked = lock_layer(AgentLayer(source=str(tree)))
    assert lock_layer(AgentLayer(source=str(tmp_path / "tree.tar.gz"))).digest == locked.digest
    assert lock_layer(locked) == locked
    assert not has_changed(locked)


def test_it_must_stay_what_it_was(tree):
    locked = lock_layer(AgentLayer(source=str(tree)))
    (tree / "opt/note").chmod(0o755)
    assert has_changed(locked)
    with pytest.raises(AgentSetupError, match="has changed since the job began; run a new job"):
        pack_layer(locked, io.BytesIO())
    (tree / "opt/note").unlink()
    assert has_changed(locked)


def test_what_cannot_be_one_is_named(tree, tmp_path):
    with pytest.raises(JobError, match=r"--agent-layer .*none: there is no .*none; name a folder or a tar archive"):
        lock_layer(AgentLayer(source=str(tmp_path / "none")))
    (tmp_path / "text").write_text("no archive at all")
    with pytest.raises(JobError, match="text: it is not readable as a tar archive"):
        lock_layer(AgentLayer(source=str(tmp_path / "text")))
    (tree / "tests").mkdir()
    with pytest.raises(JobError, match="tree: /tests: /tests belongs to the sandbox"):
        lock_layer(AgentLayer(source=str(tree)))
