"""What a reviewer is given to look at."""

from seatrial.view.library import Library
from seatrial.view.review.desk import Desks
from seatrial.view.review.material import Material, material_of
from tests.jobs.samples import evaluation, record
from tests.view.review.marked import GOLDEN, OUTPUT, add_trial, make_job, write_task


def material(tmp_path, left: dict[str, bytes]) -> Material:
    """That of the only trial of a job, which left these files."""
    store = make_job(tmp_path / "job", write_task(tmp_path / "tasks", "beam"))
    add_trial(store, record("beam", 1, evaluation=evaluation(1.0)), left)
    library, desks = Library([store.path]), Desks()
    desk = desks.open(library, desks.key_of(library, "job"))
    return material_of(desk, next(iter(desk.trials)))


def test_the_output_comes_first_and_once_wherever_it_is_among_the_changes(tmp_path):
    found = material(tmp_path, {"/workspace/a.txt": b"a", OUTPUT: GOLDEN.encode(), "/workspace/z.txt": b"z"})
    names = [(file.name, file.role) for file in found.item.files]
    assert names == [(OUTPUT, "output"), ("/workspace/a.txt", "added"), ("/workspace/z.txt", "added")]
    content = found.content(0)
    assert content
    assert content.head == GOLDEN.encode()
