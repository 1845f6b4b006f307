"""score_rubric: what holds for every rubric, and the typed error for each that makes no sense."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import verifier_kit as kit
from seatrial.errors import RubricError, UsageError
from seatrial.scoring.rubric import Dimension, Strategy, score_rubric

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
ROUNDING = 1e-4

strategies = st.sampled_from(STRATEGIES)
scores = st.floats(-10, 10) | st.integers(-3, 12)
sizes = st.floats(1e-3, 1e3) | st.integers(1, 10)
weights = st.floats(0, 1e3, allow_subnormal=False) | st.integers(0, 5)


@st.composite
def rubrics(draw: st.DrawFn, weight: st.SearchStrategy[float] = weights) -> list[Dimension]:
    """One to five dimensions, at least one of which counts."""
    drawn = draw(st.lists(st.tuples(scores, sizes, weight), max_size=4))
    rest = [Dimension(f"d{index}", *values) for index, values in enumerate(drawn)]
    return [Dimension("first", draw(scores), draw(sizes), draw(weight.filter(lambda value: value > 0))), *rest]


def reward(dimensions: Sequence[Dimension], strategy: Strategy = "weighted_mean") -> float:
    return score_rubric(dimensions, strategy).reward


@given(rubrics(), strategies)
def test_a_reward_is_in_range_with_at_most_4_decimals(dimensions: list[Dimension], strategy: Strategy):
    value = reward(dimensions, strategy)
    assert 0.0 <= value <= 1.0
    assert round(value, 4) == value


@given(rubrics(), strategies, st.data())
def test_a_better_score_never_costs_anything(dimensions: list[Dimension], strategy: Strategy, data: st.DataObject):
    index = data.draw(st.integers(0, len(dimensions) - 1))
    better = [*dimensions]
    better[index] = better[index]._replace(score=better[index].score + data.draw(st.floats(0, 10)))
    slack = ROUNDING if strategy == "geometric_mean" else 0.0  # its logarithms are rounded before the result is
    assert reward(dimensions, strategy) <= reward(better, strategy) + slack


@given(rubrics(), strategies, st.randoms())
def test_the_order_of_dimensions_does_not_matter(dimensions: list[Dimension], strategy: Strategy, random: Any):
    shuffled = [*dimensions]
    random.shuffle(shuffled)
    assert reward(shuffled, strategy) == reward(dimensions, strategy)


@given(rubrics(), strategies, st.integers(-40, 40))
def test_only_the_proportion_of_weights_matters(dimensions: list[Dimension], strategy: Strategy, power: int):
    scaled = [dimension._replace(weight=float(dimension.weight) * 2.0**power) for dimension in dimensions]
    assert reward(scaled, strategy) == reward(dimensions, strategy)


@given(rubrics(st.integers(0, 50)), strategies, st.integers(1, 10**6))
def test_whole_weights_may_be_multiplied(dimensions: list[Dimension], strategy: Strategy, factor: int):
    scaled = [dimension._replace(weight=dimension.weight * factor) for dimension in dimensions]
    assert reward(scaled, strategy) == reward(dimensions, strategy)


@given(rubrics())
def test_the_means_are_ordered(dimensions: list[Dimension]):
    assert reward(dimensions, "min") <= reward(dimensions, "weighted_mean")
    assert reward(dimensions, "min") <= reward(dimensions, "geometric_mean") + ROUNDING
    assert reward(dimensions, "geometric_mean") <= reward(dimensions, "weighted_mean") + ROUNDING
    assert reward(dimensions, "all_pass") <= reward(dimensions, "min")
    assert reward(dimensions, "all_pass") <= reward(dimensions, "any_pass")


@given(rubrics(), strategies, scores)
def test_a_dimension_of_weight_0_is_reported_but_does_not_count(
    dimensions: list[Dimension], strategy: Strategy, score: float
):
    result = score_rubric([*dimensions, Dimension("extra", score, weight=0)], strategy)
    assert result.reward == reward(dimensions, strategy)
    assert result.breakdown["extra"]["score"] == score


@given(st.sampled_from(["weighted_mean", "min", "geometric_mean"]), st.integers(0, 100), st.integers(1, 5))
def test_equal_scores_roll_up_to_themselves(strategy: Strategy, percent: int, count: int):
    dimensions = [Dimension(str(index), percent, 100, weight=index + 1) for index in range(count)]
    assert reward(dimensions, strategy) == percent / 100


@given(rubrics(), strategies, st.floats(0, 1))
def test_the_library_and_the_kit_agree(dimensions: list[Dimension], strategy: Strategy, threshold: float):
    result = score_rubric(dimensions, strategy, threshold=threshold)
    assert result.reward == kit.roll_up(dimensions, strategy, threshold=threshold)
    assert result.breakdown == kit.details_of(dimensions)
    assert result.threshold == (threshold if strategy == "threshold" else None)


def test_the_library_knows_the_strategies_of_the_kit():
    assert STRATEGIES == kit.STRATEGIES


@pytest.mark.parametrize(
    ("code", "dimensions", "options"),
    [
        ("unknown_dimension", [Dimension("a", 1), Dimension("b", 1)], {"names": ["a"]}),
        ("missing_dimension", [Dimension("a", 1)], {"names": ["a", "b"]}),
        ("duplicate_dimension", [Dimension("a", 1), Dimension("a", 0)], {}),
        ("no_dimensions", [], {}),
        ("not_finite", [Dimension("a", math.nan)], {}),
        ("not_finite", [Dimension("a", -math.inf)], {}),
        ("not_finite", [Dimension("a", 10**400)], {}),
        ("not_finite", [Dimension("a", True)], {}),
        ("not_finite", [Dimension("a", 1, math.inf)], {}),
        ("not_finite", [Dimension("a", 1, weight=math.nan)], {}),
        ("not_finite", [Dimension("a", 1)], {"strategy": "threshold", "threshold": math.nan}),
        ("bad_max_score", [Dimension("a", 1, 0)], {}),
        ("bad_max_score", [Dimension("a", 1, -0.5)], {}),
        ("bad_weight", [Dimension("a", 1, weight=-1)], {}),
        ("bad_weight", [Dimension("a", 1, weight=0), Dimension("b", 1, weight=0.0)], {}),
        ("unknown_strategy", [Dimension("a", 1)], {"strategy": "median"}),
        ("unknown_strategy", [Dimension("a", 1)], {"strategy": ""}),
    ],
)
def test_a_rubric_that_makes_no_sense_has_a_stable_code(
    code: str, dimensions: list[Dimension], options: dict[str, Any]
):
    with pytest.raises(RubricError) as caught:
        score_rubric(dimensions, **options)
    assert caught.value.code == code
    assert isinstance(caught.value, UsageError)


def test_a_threshold_no_mean_can_reach_is_refused_by_library_and_kit():
    with pytest.raises(kit.KitError):
        kit.roll_up([Dimension("a", 1)], "threshold", threshold=1.5)
    with pytest.raises(RubricError):
        score_rubric([Dimension("a", 1)], "threshold", threshold=1.5)


def test_the_message_names_the_dimension():
    with pytest.raises(RubricError, match="max_score of 'clarity' is -1, expected more than 0"):
        score_rubric([Dimension("clarity", 1, -1)])
    with pytest.raises(RubricError, match="dimension 'tone': without a score"):
        score_rubric([Dimension("clarity", 1)], names=["clarity", "tone"])
