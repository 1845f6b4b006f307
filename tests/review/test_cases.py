"""A whole review, from the queue to the corrected rate: right on average, wherever reviewers stop."""

import random
import statistics
from collections.abc import Callable

import pytest

from seatrial.model.review import ReviewEntry
from seatrial.review.cases import VerifierFigures, cases_of, verifier_figures
from seatrial.review.queue import QueueItem, QueueOptions, make_queue
from seatrial.store.index import TrialEntry
from tests.analysis.memory_jobs import memory_job, trial
from tests.review.journals import said

ROUNDS, TRIALS = 30, 400
RECALL, SPECIFICITY, SHARE = 0.9, 0.7, 0.4


class World:
    """Trials by an erring verifier, of which many that it gets wrong look doubtful; and what people would say."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.lots = random.Random(seed)
        self.truth: dict[str, bool] = {}
        self.trials = [self._trial(f"t{number}") for number in range(TRIALS)]
        self.reviews: dict[str, list[ReviewEntry]] = {}
        self.doubted: frozenset[str] = frozenset()

    def _trial(self, name: str) -> TrialEntry:
        people = self.lots.random() < SHARE
        right = self.lots.random() < (RECALL if people else SPECIFICITY)
        doubtful = self.lots.random() < (0.1 if right else 0.6)
        made = trial(name, "x", float(people == right), repeats=(0.0, 1.0) if doubtful else ())
        self.truth[made.trial_id] = people
        return made

    def queue(self, number: int, reviewer: str = "ada", where: str = "") -> list[QueueItem]:
        chosen = memory_job(self.trials).where(where).trials if where else self.trials
        options = QueueOptions(number, self.seed, where)
        return make_queue(chosen, self.reviews, 1.0, reviewer, options, self.doubted)

    def look(self, chosen: TrialEntry, item: QueueItem | None = None, reviewer: str = "ada") -> None:
        word = "pass" if self.truth[chosen.trial_id] else "fail"
        entry = said(chosen.trial_id, reviewer, word, sampling=item.sampling if item else None)
        self.reviews.setdefault(chosen.trial_id, []).append(entry)

    def figures(self) -> VerifierFigures:
        job = memory_job(self.trials)
        job.__dict__["reviews"], job.__dict__["doubted_by_judges"] = self.reviews, self.doubted
        return verifier_figures(cases_of([job]))


def to_the_end(world: World) -> None:
    for item in world.queue(80):
        world.look(item.trial, item)


def stopped_early(world: World) -> None:
    for item in world.queue(80)[:-60]:
        world.look(item.trial, item)


def one_after_the_other(world: World) -> None:
    for reviewer, number in (("ada", 20), ("eve", 120)):
        for item in world.queue(number, reviewer):
            world.look(item.trial, item, reviewer)


def after_some_on_purpose(world: World) -> None:
    for chosen in world.lots.sample(world.trials, 150):
        world.look(chosen, reviewer="gus")
    to_the_end(world)


def what_judges_doubt_first(world: World) -> None:
    """Judges doubt most trials that the verifier gets wrong, and few others."""
    wrong = {each.trial_id for each in world.trials if (each.reward == 1.0) != world.truth[each.trial_id]}
    lots = random.Random(world.seed)
    chances = {each.trial_id: 0.8 if each.trial_id in wrong else 0.1 for each in world.trials}
    world.doubted = frozenset(name for name, chance in chances.items() if lots.random() < chance)
    for item in world.queue(30):
        world.look(item.trial, item)


@pytest.mark.parametrize(
    "review", [to_the_end, stopped_early, one_after_the_other, after_some_on_purpose, what_judges_doubt_first]
)
def test_the_corrected_rate_is_right_however_far_people_got(review: Callable[[World], None]):
    off, held = [], 0
    for seed in range(ROUNDS):
        world = World(seed)
        review(world)
        rate, truth = world.figures().powered, statistics.fmean(world.truth.values())
        assert rate is not None
        off.append(rate.value - truth)
        held += rate.low <= truth <= rate.high
    assert statistics.fmean(off) == pytest.approx(0.0, abs=0.02)
    assert held >= 0.92 * ROUNDS


def test_what_nobody_drew_lots_for_stands_for_itself():
    world = World(0)
    for chosen in world.trials[:50]:
        world.look(chosen)
    found = world.figures()
    assert (found.sampled, found.confusion.trials) == (False, 50)
    assert found.confusion.agreement
    assert found.confusion.agreement.effective == pytest.approx(50)


def only_the_first_few(world: World) -> None:
    for item in world.queue(80)[:15]:
        world.look(item.trial, item)


def only_what_failed(world: World) -> None:
    for item in world.queue(80, where="outcome=fail"):
        world.look(item.trial, item)


def all_that_passed_then_some_of_everything(world: World) -> None:
    for item in world.queue(400, where="outcome=pass"):
        world.look(item.trial, item)
    for item in world.queue(100, "eve"):
        world.look(item.trial, item, "eve")


@pytest.mark.parametrize("review", [only_the_first_few, only_what_failed])
def test_trials_that_nobody_could_draw_or_got_to_may_be_anything(review: Callable[[World], None]):
    world = World(1)
    review(world)
    found, truth = world.figures(), statistics.fmean(world.truth.values())
    assert found.powered
    assert found.powered.trials == TRIALS
    assert found.powered.low <= truth <= found.powered.high
    assert found.powered.high - found.powered.low > found.unseen / TRIALS > 0.4


def test_reviews_of_some_trials_and_of_all_are_weighted_together():
    off = []
    for seed in range(4):
        world = World(seed)
        all_that_passed_then_some_of_everything(world)
        found = world.figures()
        assert found.powered
        assert found.unseen == 0
        off.append(found.powered.value - statistics.fmean(world.truth.values()))
    assert statistics.fmean(off) == pytest.approx(0.0, abs=0.04)


def test_a_filter_that_nobody_can_read_is_that_of_somebody_who_chose():
    world = World(0)
    for item in world.queue(80)[:20]:
        odd = QueueItem(item.trial, item.sampling.model_copy(update={"where": "nonsense"}))
        world.look(item.trial, odd)
    found = world.figures().confusion.agreement
    assert found
    assert found.effective == pytest.approx(20)


def test_those_that_judges_doubt_stand_for_others_that_judges_doubt():
    world = World(2)
    world.doubted = frozenset(each.trial_id for each in world.trials[:100])
    for item in world.queue(30):
        if item.sampling.stratum == "judges":
            world.look(item.trial, item)
    alike = [each for each in world.trials[:100] if not each.repeats]
    found = world.figures()
    assert (found.confusion.trials, found.unseen) == (30, TRIALS - len(alike))
