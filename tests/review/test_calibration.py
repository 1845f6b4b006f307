from seatrial.model.review import ReviewEntry
from seatrial.review.calibration import Calibration, calibration_of
from seatrial.review.cases import cases_of
from seatrial.review.reviewers import reviewer_figures
from tests.analysis.memory_jobs import memory_job, trial
from tests.review.journals import said, taken_back


def reviews(*entries):
    found: dict[str, list[ReviewEntry]] = {}
    for entry in entries:
        found.setdefault(entry.trial_id, []).append(entry)
    return found


def test_first_verdicts_are_compared_with_what_is_known():
    known = [said(name, "expert", "pass", role="gold") for name in "abcd"]
    journal = reviews(
        *known,
        said("a", "ada", "pass"),
        said("b", "ada", "fail"),
        said("b", "ada", "pass", role="second_look"),
        said("c", "ada", "defer"),
        said("e", "ada", "fail"),
    )
    assert calibration_of("ada", journal) == Calibration(judged=2, right=1)
    assert calibration_of("bob", journal) == Calibration(judged=0, right=0)


def test_the_page_and_the_figures_count_the_same_when_several_say_what_is_right():
    journal = reviews(
        said("a", "expert", "pass", role="gold"),
        said("a", "ada", "fail", role="gold"),
        said("a", "ada", "pass"),
        said("b", "expert", "fail", role="gold"),
        said("b", "other", "defer", role="gold"),
        said("b", "ada", "pass"),
    )
    job = memory_job([trial(name, "x", 1.0) for name in "ab"])
    job.__dict__["reviews"] = {f"{name}.x.1": entries for name, entries in journal.items()}
    (ada,) = reviewer_figures(cases_of([job]))
    assert calibration_of("ada", journal) == Calibration(ada.calibrated, ada.right) == Calibration(2, 1)


def test_what_one_knows_by_oneself_and_what_was_taken_back_count_for_nothing():
    own, gone = said("a", "ada", "pass", role="gold"), said("b", "expert", "pass", role="gold")
    journal = reviews(own, said("a", "ada", "pass"), gone, taken_back(gone), said("b", "ada", "pass"))
    assert calibration_of("ada", journal) == Calibration(judged=0, right=0)
