import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.review.queue import QueueOptions, make_queue, state_for
from tests.analysis.memory_jobs import trial
from tests.review.journals import drawn, said, taken_back

NOBODY = "nobody"
EVERY = QueueOptions(random=1000)
PLAIN = [trial(f"plain-{number}", "x", float(number % 2)) for number in range(10)]


def queue(trials, reviews=None, reviewer=NOBODY, options=EVERY, threshold=1.0):
    return make_queue(trials, reviews or {}, threshold, reviewer, options)


def ids(items):
    return [each.trial.trial_id for each in items]


def strata(items):
    return {each.trial.task_id: each.sampling.stratum for each in items}


@pytest.mark.parametrize(
    ("stratum", "case"),
    [
        ("disagreement", {"reward": 1.0, "tags": ("judge:wrong_method",)}),
        ("random", {"reward": 0.0, "tags": ("judge:wrong_method",)}),
        ("near_threshold", {"reward": 0.9}),
        ("random", {"reward": 0.5}),
        ("random", {"reward": 1.0}),
        ("flaky", {"reward": 0.0, "repeats": (0.0, 1.0)}),
        ("random", {"reward": 0.0, "repeats": (0.0, 0.0)}),
        ("flaky", {"reward": 0.0, "disputed_reward": 1.0}),
        ("flaky", {"reward": 0.0, "tags": ("mechanical:nondeterministic_verifier",)}),
        ("tampering", {"reward": 1.0, "tags": ("mechanical:pytest_hook_planted",)}),
        ("random", {"reward": 0.0, "tags": ("mechanical:unit_mismatch",)}),
    ],
)
def test_why_a_trial_is_asked_about(stratum, case):
    found = queue([trial("odd", "x", **case), *PLAIN])
    assert strata(found)["odd"] == stratum
    assert stratum == "random" or ids(found)[0] == "odd.x.1"


def test_a_threshold_below_one_has_close_cases_on_both_sides():
    rewards = {"far": 0.2, "under": 0.4, "over": 0.6, "full": 1.0}
    found = strata(queue([trial(name, "x", reward) for name, reward in rewards.items()], threshold=0.5))
    assert found == {"far": "random", "under": "near_threshold", "over": "near_threshold", "full": "random"}


@pytest.mark.parametrize(
    ("entries", "urgent"),
    [
        ([], False),
        ([("ada", "pass", "first")], False),
        ([("ada", "fail", "first")], True),
        ([("ada", "defer", "first")], False),
        ([("ada", "pass", "first"), ("bob", "fail", "first")], True),
        ([("ada", "fail", "first"), ("ada", "pass", "second_look")], False),
        ([("ada", "pass", "first"), ("bob", "fail", "first"), ("eve", "fail", "adjudication")], False),
        ([("ada", "fail", "first"), ("eve", "pass", "adjudication"), ("bob", "fail", "first")], True),
    ],
)
def test_where_people_disagree_with_the_verifier_or_each_other_comes_first(entries, urgent):
    odd = trial("z-passed", "x", 1.0)
    made = [said(odd.trial_id, who, judgment, role=role) for who, judgment, role in entries]
    close = trial("close", "x", 0.95)
    found = ids(queue([*PLAIN, close, odd], {odd.trial_id: made}))
    assert (found.index(odd.trial_id) < found.index(close.trial_id)) == urgent


def test_what_one_says_moves_nothing_in_ones_own_queue():
    trials = [*PLAIN, trial("odd", "x", 1.0)]
    before = ids(queue(trials, reviewer="ada"))
    entries = {"odd.x.1": [said("odd.x.1", "ada", "fail", sampling=drawn("random", 1.0))]}
    assert ids(queue(trials, entries, reviewer="ada")) == before
    assert ids(queue(trials, entries, reviewer="bob"))[0] == "odd.x.1"


def test_nothing_to_look_at_is_not_asked_about():
    failed = [trial("broken", "x", None), trial("stopped", "x", 0.0, outcome="cancelled")]
    unjudged = trial("unjudged", "x", 0.0, outcome="verifier_error")
    assert ids(queue([*failed, unjudged])) == ["unjudged.x.1"]


def test_the_slice_is_a_share_of_what_is_in_no_other_stratum():
    trials = [*PLAIN, trial("close", "x", 0.9)]
    found = queue(trials, options=QueueOptions(random=4))
    assert Counter(each.sampling.stratum for each in found) == {"near_threshold": 1, "random": 4}
    assert {each.sampling.probability for each in found if each.sampling.stratum == "random"} == {0.4}
    assert found[0].sampling.probability == 1.0
    assert ids(found)[0] == "close.x.1"


def test_a_trial_stays_in_the_stratum_that_it_was_drawn_from():
    passed = trial("odd", "x", 1.0)
    entries = {passed.trial_id: [said(passed.trial_id, "ada", "fail", sampling=drawn("random", 0.4))]}
    found = queue([passed, *PLAIN], entries)
    assert ids(found)[0] == passed.trial_id
    assert strata(found)["odd"] == "random"
    assert found[0].sampling.probability == 1.0


def test_known_verdicts_are_mixed_in_for_all_but_those_who_gave_them():
    trials = [trial(f"t-{number}", "x", 0.0) for number in range(60)]
    known = [each.trial_id for each in trials[:20]]
    reviews = {name: [said(name, "expert", "pass", role="gold")] for name in known}
    found = queue(trials, reviews)
    places = [place for place, name in enumerate(ids(found)) if name in known]
    assert len(places) == 20
    assert places[0] < 15
    assert places[-1] > 40
    assert {each.sampling.stratum for each in found if each.trial.trial_id in known} == {"calibration"}
    assert not set(known) & set(ids(queue(trials, reviews, reviewer="expert")))
    withdrawn = {name: [*entries, taken_back(entries[0])] for name, entries in reviews.items()}
    assert set(strata(queue(trials, withdrawn)).values()) == {"random"}


@given(st.integers(0, 2**32), st.integers(0, 30), st.randoms(use_true_random=False))
def test_all_reviewers_have_the_same_queue_whatever_order_trials_come_in(seed, wanted, chance):
    trials = [trial(f"t-{number}", "x", number / 30) for number in range(30)]
    shuffled = chance.sample(trials, len(trials))
    options = QueueOptions(wanted, seed)
    assert queue(trials, reviewer="ada", options=options) == queue(shuffled, reviewer="bob", options=options)


def test_seeds_draw_every_trial_equally_often():
    trials = [trial(f"t-{number}", "x", 0.0) for number in range(20)]
    counts = Counter(name for seed in range(400) for name in ids(queue(trials, options=QueueOptions(5, seed))))
    assert len(counts) == 20
    assert all(60 < count < 140 for count in counts.values())


def test_a_larger_slice_has_all_of_a_smaller_one():
    trials = [trial(f"t-{number}", "x", 0.0) for number in range(random.Random(1).randint(50, 60))]
    assert set(ids(queue(trials, options=QueueOptions(10)))) < set(ids(queue(trials, options=QueueOptions(20))))


def test_how_far_a_reviewer_is():
    first = said("t", "ada", "defer")
    second = said("t", "ada", "pass")
    assert state_for("ada", []) == "open"
    assert state_for("bob", [first]) == "open"
    assert state_for("ada", [first]) == "deferred"
    assert state_for("ada", [first, second]) == "done"
    assert state_for("ada", [first, second, taken_back(second)]) == "deferred"


def test_what_judges_doubt_comes_before_the_rest_and_both_are_drawn_by_lot():
    doubted = {each.trial_id for each in PLAIN[:6]}
    found = make_queue(PLAIN, {}, 1.0, NOBODY, QueueOptions(random=3), doubted)
    assert [each.sampling.stratum for each in found] == ["judges"] * 3 + ["random"] * 3
    assert [each.sampling.probability for each in found] == [0.5] * 3 + [0.75] * 3
    assert {each.trial.trial_id for each in found[:3]} <= doubted
    urgent = trial("urgent", "x", 0.9)
    first = make_queue([*PLAIN, urgent], {}, 1.0, NOBODY, EVERY, {*doubted, urgent.trial_id})[0]
    assert (first.trial, first.sampling.stratum) == (urgent, "near_threshold")


def test_what_was_drawn_before_judges_doubted_it_stays_where_it_was_drawn_from():
    chosen = PLAIN[0].trial_id
    reviews = {chosen: [said(chosen, "ada", "p", sampling=drawn("random", 0.5))]}
    found = make_queue(PLAIN, reviews, 1.0, NOBODY, EVERY, {chosen})
    assert {each.sampling.stratum for each in found if each.trial.trial_id == chosen} == {"random"}
