"""The trials around a trial: before and after it, and the others at its task."""

from seatrial.view.trial.neighbours import MOST_ATTEMPTS, neighbours_of
from tests.view.trial.trials import opened
from tests.view.viewers import stored_job


def test_before_and_after_in_the_order_of_ids(tmp_path):
    store = stored_job(tmp_path / "job", {"add": [1.0, 0.0], "sort": [0.5]})
    around = [neighbours_of(opened(store, each)) for each in ("add.noop.1", "add.noop.2", "sort.noop.1")]
    assert [(each.before, each.after, each.place, each.count) for each in around] == [
        (None, "add.noop.2", 1, 3),
        ("add.noop.1", "sort.noop.1", 2, 3),
        ("add.noop.2", None, 3, 3),
    ]


def test_other_agents_and_attempts_at_the_same_task(tmp_path):
    store = stored_job(tmp_path / "job", {"add": [1.0, 0.0], "sort": [0.5]}, agents=("noop", "oracle"))
    rows = neighbours_of(opened(store, "add.oracle.2")).same_task
    found = [(row.agent, [(each.attempt, each.outcome, each.is_shown) for each in row.attempts]) for row in rows]
    assert found == [
        ("noop", [(1, "pass", False), (2, "fail", False)]),
        ("oracle", [(1, "pass", False), (2, "fail", True)]),
    ]
    assert rows[0].attempts[1].told == "add.noop.2: fail, reward 0, 2.5 s"


def test_too_many_attempts_are_counted_and_the_one_that_is_shown_is_among_them(tmp_path):
    store = stored_job(tmp_path / "job", {"add": [0.0] * (MOST_ATTEMPTS + 5)})
    (row,) = neighbours_of(opened(store, f"add.noop.{MOST_ATTEMPTS + 5}")).same_task
    assert (len(row.attempts), row.left_out) == (MOST_ATTEMPTS + 1, 4)
    assert row.attempts[-1].is_shown
