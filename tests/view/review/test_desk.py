"""Jobs under review, by keys of their own."""

import shutil

from seatrial.view.library import Library
from seatrial.view.review.desk import Desks, Material, material_of
from tests.jobs.samples import evaluation, record
from tests.review.journals import said
from tests.view.review.marked import GOLDEN, OUTPUT, add_trial, make_job, many_trials, write_task


def test_copies_of_a_job_beside_each_other_are_reviewed_each_on_its_own(tmp_path):
    store = many_trials(tmp_path / "all", 1)
    shutil.copytree(store.path, tmp_path / "all" / "copy")
    library, desks = Library([tmp_path / "all"]), Desks()
    found = {job: desks.open(library, desks.key_of(library, job)) for job in ("copy", "job")}
    assert [(job, desk.job.path.name, desk.job_key) for job, desk in found.items()] == [
        ("copy", "copy", "copy"),
        ("job", "job", "job"),
    ]
    found["copy"].job.store.add_reviews(said("beam.noop.1", "ada", "pass"))
    assert store.reviews() == {}


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


def test_a_job_file_that_nobody_could_read_keeps_people_from_no_other_job(tmp_path):
    store = many_trials(tmp_path / "all", 1)
    (tmp_path / "all" / "a-huge-one").mkdir()
    with (tmp_path / "all" / "a-huge-one" / "job.json").open("wb") as file:
        file.truncate(5 * 2**30)
    library, desks = Library([tmp_path / "all"]), Desks()
    assert {*library.find()} == {"a-huge-one", "job"}
    assert desks.open(library, desks.key_of(library, "job")).job.path == store.path
