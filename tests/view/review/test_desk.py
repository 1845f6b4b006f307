"""Jobs under review, by keys of their own."""

import shutil

from seatrial.view.library import Library
from seatrial.view.review.desk import Desks
from tests.review.journals import said
from tests.view.review.marked import many_trials


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
