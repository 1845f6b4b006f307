"""EvaluationResult and its parts: the rule about unparseable outputs, bounds, sources and intervals."""

import copy
import datetime as dt
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from seatrial.model.evaluation import Annotation, ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult, Judgment
from seatrial.model.record import TrialRecord
from tests.model.samples import NOON, annotation, evaluation, full_evaluation, record, validity
from tests.model.strategies import evaluations, fractions, validities


@pytest.mark.parametrize("judgment", ["pass", "fail", "defer"])
def test_a_judgment_is_read_from_its_word(judgment: str):
    made = annotation(judgment=judgment)
    assert made.judgment is Judgment(judgment)
    assert Annotation.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    "values",
    [
        {"judgment": "PASS"},
        {"judgment": "maybe"},
        {"judgment": None},
        {"judgment": True},
        {"reviewer_id": ""},
        {"timestamp": NOON.replace(tzinfo=None)},
        {"timestamp": NOON.isoformat()},
        {"timestamp": NOON.date()},
        {"categories": ("unit",)},
        {"categories": [1]},
        {"notes": 5},
        {"verdict": "pass"},
    ],
    ids=str,
)
def test_what_is_not_a_verdict_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        annotation(**values)


def test_a_reviewer_need_give_no_more_than_a_verdict():
    made = Annotation(reviewer_id="ann", timestamp=NOON, judgment=Judgment.DEFER)
    assert (made.reviewer_discipline, made.categories, made.notes) == (None, [], None)


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_the_time_keeps_the_reviewers_offset(hours: int):
    when = dt.datetime(2026, 3, 1, 9, 30, tzinfo=dt.timezone(dt.timedelta(hours=hours)))
    again = Annotation.model_validate_json(annotation(timestamp=when).model_dump_json())
    assert again.timestamp == when
    assert again.timestamp.utcoffset() == when.utcoffset()


@pytest.mark.parametrize("seconds", [30, -30, 19 * 60 + 32])
def test_a_time_json_cannot_hold_is_refused_or_kept(seconds: int):
    """Old local times have offsets such as +00:19:32; to cut off the seconds would move the time."""
    odd = NOON.replace(tzinfo=dt.timezone(dt.timedelta(seconds=seconds)))
    try:
        made = annotation(timestamp=odd)
    except ValidationError:
        return
    assert Annotation.model_validate_json(made.model_dump_json()) == made


UNPARSEABLE = validity(output_parseable=False)
RULE = "the output did not parse"


def silently(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call one of pydantic's old names, which warn that they are old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **keywords)


def of(trial: TrialRecord) -> EvaluationResult:
    assert trial.evaluation is not None
    return trial.evaluation


def replace(value: Any, **changes: Any) -> Any:
    """`copy.replace` of Python 3.13; before it there is only the method it calls."""
    newer = getattr(copy, "replace", None)
    return newer(value, **changes) if newer else value.__replace__(**changes)


WAYS_TO_MAKE_ONE: dict[str, Callable[[dict[str, Any]], EvaluationResult]] = {
    "constructor": lambda values: EvaluationResult(**values),
    "model_validate": EvaluationResult.model_validate,
    "model_validate_json": lambda values: EvaluationResult.model_validate_json(
        json.dumps({**values, "validity": values["validity"].model_dump()})
    ),
    "model_construct": lambda values: EvaluationResult.model_construct(**values),
    "model_construct with fields": lambda values: EvaluationResult.model_construct(_fields_set=set(values), **values),
    "construct": lambda values: silently(EvaluationResult.construct, **values),
    "parse_obj": lambda values: silently(EvaluationResult.parse_obj, values),
    "model_copy": lambda values: evaluation(1.0).model_copy(update=values),
    "model_copy of the validity": lambda values: evaluation(values["reward"]).model_copy(
        update={"validity": values["validity"]}
    ),
    "model_copy of the reward": lambda values: evaluation(0.0, validity=values["validity"]).model_copy(
        update={"reward": values["reward"]}
    ),
    "deep model_copy": lambda values: evaluation(1.0).model_copy(update=values, deep=True),
    "copy": lambda values: evaluation(1.0).copy(update=values),
    "copy.replace": lambda values: replace(evaluation(1.0), **values),
    "in a record": lambda values: of(record(evaluation=values)),
    "in a copied record": lambda values: of(record().model_copy(update={"evaluation": values, "failure": None})),
}


@pytest.mark.parametrize("way", WAYS_TO_MAKE_ONE)
def test_an_unparseable_output_earns_nothing_however_the_result_is_made(way: str):
    make = WAYS_TO_MAKE_ONE[way]
    assert make({"reward": 0.0, "validity": UNPARSEABLE}).reward == 0.0
    with pytest.raises(ValidationError, match=RULE):
        make({"reward": 0.7, "validity": UNPARSEABLE})


def test_copying_the_validity_does_not_touch_the_result_it_came_from():
    result = evaluation(1.0)
    spoilt = result.validity.model_copy(update={"output_parseable": False})
    assert (spoilt.output_parseable, result.validity.output_parseable) == (False, True)
    with pytest.raises(ValidationError, match="frozen"):
        result.validity = spoilt  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        result.validity.output_parseable = False  # type: ignore[misc]


@given(reward=fractions, flags=validities)
def test_only_the_parse_flag_binds_the_reward(reward: float, flags):
    if flags.output_parseable or reward == 0.0:
        assert EvaluationResult(reward=reward, validity=flags).reward == reward
    else:
        with pytest.raises(ValidationError, match=RULE):
            EvaluationResult(reward=reward, validity=flags)


@given(evaluations())
def test_every_stored_result_keeps_the_rule(result: EvaluationResult):
    again = EvaluationResult.model_validate_json(result.model_dump_json())
    assert again == result
    assert again.validity.output_parseable or again.reward == 0.0


@pytest.mark.parametrize("reward", [-5e-324, 1.0000000000000002, 2, float("nan"), float("inf"), True, "1", None])
def test_a_reward_is_a_number_from_0_to_1(reward: Any):
    with pytest.raises(ValidationError, match="reward"):
        evaluation(reward)


def test_reward_and_validity_are_required_and_the_rest_is_not():
    with pytest.raises(ValidationError) as caught:
        EvaluationResult.model_validate({})
    assert {error["loc"] for error in caught.value.errors()} == {("reward",), ("validity",)}
    assert set(evaluation().model_dump(exclude_none=True)) == {"reward", "validity"}


def test_verdicts_stand_beside_the_reward():
    judged = evaluation(0.0).model_copy(update={"annotations": [annotation(judgment="pass")]})
    assert (judged.reward, judged.annotations) == (0.0, [annotation()])


@pytest.mark.parametrize("source", ["mechanical", "human", "judge"])
def test_an_error_tag_says_who_classified_it(source: str):
    tag = ErrorTag(category="tool failure", source=source)  # type: ignore[arg-type]
    assert tag.source is ErrorSource(source)
    assert ErrorTag.model_validate_json(tag.model_dump_json()) == tag


@pytest.mark.parametrize("values", [{"category": ""}, {"source": "runner"}, {"source": None}], ids=str)
def test_an_error_tag_needs_a_category_and_a_known_source(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        ErrorTag.model_validate({"category": "a", "source": "human", **values})


@pytest.mark.parametrize("interval", [(0.2, 0.8), (0.5, 0.5), (-1.0, 0.0), (0, 1)], ids=str)
def test_an_interval_runs_upwards(interval: tuple[float, float]):
    assert ConfidenceMetadata(confidence_interval=interval).confidence_interval == interval


def test_an_interval_that_runs_downwards_is_refused():
    with pytest.raises(ValidationError, match=r"from 0\.8 to 0\.2"):
        ConfidenceMetadata(confidence_interval=(0.8, 0.2))
    with pytest.raises(ValidationError, match=r"from 0\.8 to 0\.2"):
        ConfidenceMetadata(confidence_interval=(0.2, 0.8)).model_copy(update={"confidence_interval": (0.8, 0.2)})


@pytest.mark.parametrize(
    "values",
    [
        {"annotator_count": -1},
        {"annotator_count": True},
        {"inter_rater_agreement": 1.01},
        {"inter_rater_agreement": -1.01},
        {"confidence_interval": (0.0, float("nan"))},
        {"confidence_interval": (float("-inf"), 0.0)},
        {"confidence_interval": (0.1,)},
        {"confidence_level": 0.0},
        {"confidence_level": 1.0},
        {"sample_size": 1.0},
        {"verifier_repeats": -1},
        {"verifier_reward_sd": -0.1},
        {"verifier_reward_sd": float("inf")},
    ],
    ids=str,
)
def test_confidence_outside_its_bounds_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        ConfidenceMetadata.model_validate(values)


def test_nothing_is_known_about_confidence_unless_said():
    assert set(ConfidenceMetadata().model_dump().values()) == {None}


def test_a_non_finite_number_deep_in_the_breakdown_is_refused():
    with pytest.raises(ValidationError, match="nan is not a JSON number"):
        full_evaluation().model_copy(update={"breakdown": {"a": {"b": [0.5, {"score": float("nan")}]}}})
