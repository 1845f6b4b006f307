"""What a judge is asked, and what its answer says: whatever is wrong with an entry is wrong with that one alone."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.judge.questions import Answered, last_object, make_call, prompt_digest, read_answers
from seatrial.model.assessment import Quote, Unscored
from tests.judge.judges import answers, evidence, rubric

RUBRIC = rubric("""
[[question]]
id = "units"
text = "Are there units?"
[[question]]
id = "level"
text = "How good?"
options = ["bad", "Good"]
ordered = true
[[question]]
id = "size"
text = "How many?"
min = 1
max = 5
type = "numeric"
[[question]]
id = "faults"
text = "Which?"
kind = "labels"
labels = ["unit", "sign"]
""")
VIEW = evidence("The drop is 4.2 V.").view(("output",))
GOOD = {"units": True, "level": "Good", "size": 4, "faults": ["sign"]}


def answered(said: str) -> Answered:
    """What an answer says to the first question alone."""
    found = read_answers(said, RUBRIC.questions[:1], VIEW)["units"]
    assert isinstance(found, Answered)
    return found


def read(said: str) -> dict[str, object]:
    """Answers as they are, and the codes of what is wrong."""
    found = read_answers(said, RUBRIC.questions, VIEW)
    assert set(found) == set(GOOD)
    return {name: each.answer if isinstance(each, Answered) else each.code for name, each in found.items()}


EXPECTED = {"units": True, "level": "Good", "size": 4.0, "faults": ("sign",)}


def test_a_call_has_the_evidence_first_and_the_questions_last():
    call = make_call(RUBRIC, RUBRIC.questions, VIEW, "code")
    (turn,) = call.turns
    assert turn.text.index("4.2 V") < turn.text.index('"units"') < turn.text.index("Answer with one JSON object")
    assert "the code code" in call.system
    assert 'one of "bad", "Good"' in turn.text
    assert list(call.schema["properties"]) == list(GOOD)
    assert list(call.schema["properties"]["units"]["properties"]) == ["reason", "quotes", "answer"]
    assert make_call(RUBRIC, RUBRIC.questions, VIEW, "code", 2).turns != call.turns


def test_a_template_keeps_its_braces():
    mine = RUBRIC.model_copy(update={"template": "Look at {this}: {criteria}\n{and} that", "persona": "A cook."})
    text = make_call(mine, RUBRIC.questions[:1], VIEW, "code").turns[0].text
    assert text.index("Look at {this}:") < text.index("Are there units?") < text.index("{and} that")
    assert make_call(mine, RUBRIC.questions[:1], VIEW, "code").system.startswith("A cook.")


def test_the_prompt_digest_is_of_our_words_alone():
    assert prompt_digest(RUBRIC) == prompt_digest(rubric('persona = "x"\n[[question]]\ntext = "W"'))
    assert prompt_digest(RUBRIC) != prompt_digest(rubric('mode = "batched"\n[[question]]\ntext = "W"'))


@pytest.mark.parametrize(
    "said",
    [
        answers(**GOOD),
        f"Let me think {{about it}}. {{}} \n```json\n{answers(**GOOD)}\n```\nDone.",
        json.dumps({"answers": json.loads(answers(**GOOD))}),
        json.dumps({"answers": [{"id": name, "reason": "", "answer": value} for name, value in GOOD.items()]}),
        answers(**{**GOOD, "units": "Yes", "level": " good "}),
        answers(**GOOD, extra=True),
        answers(**{**GOOD, "units": False}) + answers(**GOOD),
    ],
    ids=["plain", "in words", "wrapped", "listed", "lenient", "extra", "the last counts"],
)
def test_answers_that_can_be_read(said):
    assert read(said) == EXPECTED


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"units": "perhaps"}, "malformed"),
        ({"units": 1}, "malformed"),
        ({"units": None}, "malformed"),
        ({"level": "excellent"}, "out_of_range"),
        ({"level": 2}, "malformed"),
        ({"size": 6}, "out_of_range"),
        ({"size": "4"}, "malformed"),
        ({"size": True}, "malformed"),
        ({"size": 10**400}, "malformed"),
        ({"faults": ["sign", "colour"]}, "out_of_range"),
        ({"faults": "sign"}, "malformed"),
    ],
)
def test_a_bad_answer_loses_only_its_own_question(changes, code):
    (name,) = changes
    assert read(answers(**{**GOOD, **changes})) == {**EXPECTED, name: code}


def test_missing_renamed_doubled_and_bare_entries_lose_only_themselves():
    without = {name: value for name, value in GOOD.items() if name != "units"}
    assert read(answers(**without)) == {**EXPECTED, "units": "missing"}
    renamed = read_answers(answers(**without, unit=True), RUBRIC.questions, VIEW)["units"]
    assert isinstance(renamed, Unscored)
    assert '"unit" instead' in renamed.message
    whole = answers(**GOOD)
    again = whole[:-1] + ', "units": {"reason": "", "quotes": [], "answer": false}}'
    assert read(again) == {**EXPECTED, "units": "doubled"}
    twice = whole.replace('"answer": true', '"answer": true, "answer": false')
    assert read(twice) == {**EXPECTED, "units": "doubled"}
    listed = [{"id": "units", "answer": each} for each in (True, True)]
    assert read(json.dumps({"answers": listed}))["units"] == "doubled"
    assert read(json.dumps({**json.loads(whole), "units": True})) == {**EXPECTED, "units": "malformed"}


@pytest.mark.parametrize("said", ["", "yes", "[]", "{", '{"units": NaN}', answers(**GOOD)[:-1], "{" * 5000])
def test_what_is_no_object_answers_nothing(said):
    assert set(read(said).values()) <= {"malformed", "missing"}


def test_one_question_may_be_answered_without_its_name():
    found = answered('{"reason": "so", "quotes": ["4.2 V"], "answer": true}')
    assert found == Answered(True, "so", (Quote(text="4.2 V", found=True),))


def test_a_quote_that_does_not_occur_is_known():
    found = answered(json.dumps({"units": {"reason": "", "quotes": ["5 V", "", 7], "answer": True}}))
    assert found.quotes == (Quote(text="5 V", found=False),)


def test_text_that_no_encoding_can_hold_is_stored_all_the_same():
    found = answered('{"units": {"reason": "\\ud800 half", "quotes": ["\\udfff"], "answer": true}}')
    assert found.reason == "? half"
    assert found.quotes[0].model_dump_json() == '{"text":"?","found":false}'


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*GOOD, "answer", "answers", "reason", "quotes", "id"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.one_of(JSON.map(json.dumps), st.text(alphabet='{}[]":,\\ aunits01e', max_size=60)), st.text(max_size=9))
@example('{"units": {"answer": {"answer": true}}}', "")
def test_the_reader_never_raises_and_answers_every_question(said, before):
    found = read_answers(before + said, RUBRIC.questions, VIEW)
    assert set(found) == set(GOOD)
    for each in found.values():
        assert isinstance(each, Answered | Unscored)


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=3), st.text(alphabet="abc {}\n", max_size=20))
def test_the_last_object_is_found_behind_any_words(value, before):
    assert last_object(f"{before}\n{json.dumps(value)} so be it") == value or "{" in before


OPEN = rubric('[[question]]\nid = "faults"\ntext = "Which?"\nkind = "labels"\nlabels = ["unit"]\nopen = true').questions


def test_labels_of_a_judge_s_own_count_where_a_question_is_open():
    found = read_answers(answers(faults=["UNIT", "Wrong axis!", "wrong_axis"]), OPEN, VIEW)["faults"]
    assert isinstance(found, Answered)
    assert found.answer == ("unit", "wrong_axis")
    assert "add a short name of your own" in make_call(RUBRIC, OPEN, VIEW, "code").turns[0].text
    assert "enum" not in json.dumps(make_call(RUBRIC, OPEN, VIEW, "code").schema)


@pytest.mark.parametrize("label", ["system changed", "verifier_broken", "?!", 3])
def test_an_open_question_takes_no_category_that_only_a_run_can_find(label):
    assert isinstance(read_answers(answers(faults=[label]), OPEN, VIEW)["faults"], Unscored)


@pytest.mark.parametrize("sure", [None, "0.5", -0.1, 1.1, True, float("1e999")])
def test_a_confidence_that_is_no_share_makes_an_answer_unusable(sure):
    question = RUBRIC.questions[0].model_copy(update={"confidence": True})
    said = json.dumps({"units": {"reason": "r", "quotes": [], "answer": True, "confidence": sure}})
    found = read_answers(said, [question], VIEW)["units"]
    assert isinstance(found, Unscored)
    assert found.code == "malformed"


def test_a_question_that_asks_for_confidence_is_another_prompt():
    sure = RUBRIC.model_copy(update={"questions": (RUBRIC.questions[0].model_copy(update={"confidence": True}),)})
    assert prompt_digest(sure) != prompt_digest(RUBRIC)


@pytest.mark.parametrize(
    "said",
    [
        '{"units": {"reason": "It says {"answer": true} as if that were known", "quotes": [], "answer": false}}',
        '{"units": {"reason": "a bad \\escape", "quotes": [{"answer": true}], "answer": false}}',
        '{"level": {"reason": "r", "answer": "Good"}, "units": {"reason": "r", "answer": tr',
        '{"units": {"reason": "The report has the line\n{"units": {"answer": true}}\n", "answer": false}}',
        "x" * 200_000 + '{"units": {"answer": true}}',
    ],
)
def test_nothing_inside_of_a_broken_answer_is_taken_for_one(said):
    found = read_answers(said, RUBRIC.questions[:1], VIEW)["units"]
    assert isinstance(found, Unscored)
    assert found.code == "malformed"


def test_brackets_in_prose_before_an_answer_do_no_harm():
    assert answered('The set {a, b} and { } are fine: {"units": {"answer": true}}').answer is True
