"""Rubric files: our keys, those of others that mean the same, and a clear error for all else."""

import contextlib

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import RubricError
from seatrial.judge.rubric import (
    IMPORTANCE,
    Question,
    find_vocabulary,
    known_actions,
    load_rubric,
    parse_rubric,
    vocabularies,
)
from seatrial.model.evaluation import category_slug
from tests.judge.judges import rubric


def question(text: str) -> Question:
    return rubric(f'[[question]]\nid = "q"\ntext = "Well?"\n{text}').questions[0]


def refused(text: str) -> str:
    with pytest.raises(RubricError) as caught:
        rubric(text)
    return str(caught.value)


def test_a_question_alone_is_a_rubric():
    found = rubric('[[question]]\ntext = "Is it right?"')
    assert [(each.id, each.kind, each.weight) for each in found.questions] == [("q1", "yes_no", 1.0)]
    assert (found.name, found.rollup, found.samples, found.mode, found.guard) == (
        *("report", "weighted_mean", 1, "individual"),
        True,
    )


@pytest.mark.parametrize(("word", "weight"), IMPORTANCE.items())
def test_weights_have_names(word, weight):
    assert question(f'weight = "{word}"').weight == weight


def test_ordered_options_have_even_scores_the_worst_first():
    options = question('options = ["bad", "fair", "good"]\nordered = true').options
    assert [(each.name, each.score) for each in options] == [("bad", 0.0), ("fair", 0.5), ("good", 1.0)]


def test_unordered_options_need_scores():
    found = question('options = [{ name = "red", score = 0 }, { name = "blue", score = 1, text = "like the sky" }]')
    assert [(each.name, each.score, each.text) for each in found.options] == [
        ("red", 0.0, ""),
        ("blue", 1.0, "like the sky"),
    ]
    assert "give each a score" in refused('[[question]]\ntext = "Well?"\noptions = ["red", "blue"]')


def test_a_number_has_a_range():
    found = question("min = 0\nmax = 10")
    assert (found.kind, found.minimum, found.maximum) == ("number", 0.0, 10.0)
    assert "min is 5 and max is 5" in refused('[[question]]\ntext = "Well?"\nmin = 5\nmax = 5')


def test_labels_have_no_score_and_are_no_categories_of_a_run():
    found = question('kind = "labels"\nlabels = ["unit", "sign"]')
    assert [each.name for each in found.options] == ["unit", "sign"]
    assert not found.scored
    assert "only a run itself" in refused('[[question]]\ntext = "W"\nkind = "labels"\nlabels = ["Disputed verdict"]')
    assert "has no word in it" in refused('[[question]]\ntext = "W"\ntag = "!"')


REWARDKIT = """
[judge]
judge = "anthropic/claude-sonnet-5"
files = ["/app/email.txt"]
reference = "golden.txt"
timeout = 90
samples = 3
guard = false
isolated = true

[[criterion]]
description = "Does it name the product?"
type = "binary"
weight = 2.0

[[criterion]]
description = "How persuasive is it?"
type = "likert"
points = 5
optional = true

[[criterion]]
name = "coverage"
description = "Rate it"
type = "numeric"
min = 0
max = 100
negate = true
files = ["/app/other.txt"]

[[criterion]]
description = "Which level?"
type = "rubric"
levels = [{ score = 0, description = "none" }, { score = 4, description = "all" }]

[scoring]
aggregation = "weighted-mean"
"""


def test_rewardkit_s_keys_mean_the_same():
    found = rubric(REWARDKIT)
    assert found.models == ("anthropic/claude-sonnet-5",)
    assert (found.files, found.references, found.samples, found.timeout_sec) == (
        *(("/app/email.txt",), ("golden.txt",), 3, 90.0),
    )
    assert (found.guard, found.mode, found.rollup) == (False, "batched", "weighted_mean")
    kinds = [(each.kind, each.weight, each.negate, each.optional) for each in found.questions]
    assert kinds == [
        ("yes_no", 2.0, False, False),
        ("number", 1.0, False, True),
        ("number", 1.0, True, False),
        ("choice", 1.0, False, False),
    ]
    likert, numeric, levels = found.questions[1:]
    assert (likert.minimum, likert.maximum, likert.whole) == (1.0, 5.0, True)
    assert (numeric.id, numeric.maximum, numeric.files) == ("coverage", 100.0, ("/app/other.txt",))
    assert [(each.name, each.score) for each in levels.options] == [("none", 0.0), ("all", 1.0)]
    assert found.all_files == ("/app/email.txt", "/app/other.txt")
    assert found.notes == ("[judge] isolated has no effect: a judge here runs no program",)


def test_an_agent_as_judge_names_no_model():
    found = rubric('[judge]\njudge = "claude-code"\nmodel = "claude-x"\n[[criterion]]\ndescription = "W"')
    assert found.models == ("claude-x",)
    assert "is an agent" in found.notes[0]


def test_criteria_with_points_below_zero_are_what_must_not_be():
    found = rubric(
        '[[criteria]]\ncriterion = "It is rude."\npoints = -3\n[[criteria]]\nrequirement = "It is kind."\npoints = 2'
    )
    assert [(each.weight, each.negate) for each in found.questions] == [(3.0, True), (2.0, False)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[question]]\ntext = "W"\nnegat = true', "question 1: there is no key 'negat'; did you mean 'negate'?"),
        ('sampels = 3\n[[question]]\ntext = "W"', "there is no key 'sampels'; did you mean 'samples'?"),
        ('[judge]\nmodle = "x"\n[[criterion]]\ndescription = "W"', "[judge] there is no key 'modle'"),
        ('[[question]]\ntext = "W"\nkind = "yesno"', "did you mean"),
        ('[[question]]\ntext = "W"\nweight = "vital"', "expected a number, or essential, important, optional"),
        ('[[question]]\ntext = "W"\nweight = nan', "expected a number"),
        ('[[question]]\ntext = "W"\nnegate = "yes"', "expected true or false"),
        ('[[question]]\nid = "a"\ntext = "W"\n[[question]]\nid = "A"\ntext = "W"', "two questions have the id 'a'"),
        ('[[question]]\nid = "addresses_evaluator"\ntext = "W"', "which is taken"),
        ('[[question]]\ntext = "W"\n[[criterion]]\ndescription = "W"', "found [[question]] and [[criterion]]"),
        ("samples = 3", "expected questions"),
        ("question = []", "one [[question]] table or more"),
        ("= 3", "is not TOML"),
        ('samples = 0\n[[question]]\ntext = "W"', "samples"),
        ('rollup = "product"\n[[question]]\ntext = "W"', "rollup"),
        ('[[question]]\ntext = "W"\ntype = "likert"\npoints = 1', "expected a whole number, 2 to 100"),
        ('[[question]]\ntext = "W"\ndescription = "W"', "says again what another key says"),
        ('[[question]]\ntext = "W"\nevidence = ["diary"]', "evidence"),
    ],
)
def test_what_is_wrong_is_named(text, said):
    told = refused(text)
    assert said in told
    assert told.startswith("rubric.toml: ")


def test_the_digest_is_of_what_is_asked_and_not_of_who_is_asked_how_often():
    text = '[[question]]\ntext = "W"\n'
    same = [rubric(text), rubric(f"samples = 5\n{text}"), rubric(f'model = "x"\n{text}')]
    assert len({each.digest for each in same}) == 1
    assert rubric(f'persona = "a cook"\n{text}').digest != same[0].digest
    assert rubric(f"{text}negate = true").digest != same[0].digest


def test_a_file_is_called_by_its_name_and_its_template_is_beside_it(tmp_path):
    (tmp_path / "prompt.md").write_text("Be strict.\n{criteria}\nThank you {kindly}.")
    (tmp_path / "style.toml").write_text('prompt_template = "prompt.md"\n[[question]]\ntext = "W"')
    found = load_rubric(tmp_path / "style.toml")
    assert (found.name, found.template) == ("style", "Be strict.\n{criteria}\nThank you {kindly}.")
    with pytest.raises(RubricError, match="cannot be read: No such file"):
        load_rubric(tmp_path / "other.toml")
    secret = tmp_path.parent / "secret.txt"
    secret.write_text("a key")
    for elsewhere in (str(secret), "../secret.txt"):
        (tmp_path / "style.toml").write_text(f'prompt_template = "{elsewhere}"\n[[question]]\ntext = "W"')
        with pytest.raises(RubricError, match=r"prompt_template: .*secret\.txt"):
            load_rubric(tmp_path / "style.toml")
    (tmp_path / "style.toml").write_text('prompt_template = "gone.md"\n[[question]]\ntext = "W"')
    with pytest.raises(RubricError, match=r"prompt_template: .*gone\.md"):
        load_rubric(tmp_path / "style.toml")


def test_a_question_that_asks_nothing_is_named():
    with pytest.raises(RubricError, match=r"question 1: it has no `text`"):
        parse_rubric(b"[[question]]\nweight = 2", "rubric.toml")


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(content):
    with contextlib.suppress(RubricError):
        parse_rubric(content, "rubric.toml")


KEYS = ("weight", "min", "max", "points", "kind", "options", "labels", "tag", "files", "ordered", "negate", "evidence")
VALUES = st.one_of(st.integers(), st.booleans(), st.sampled_from(["choice", "labels", "number", "likert", "x"]))
LISTS = st.lists(
    st.one_of(VALUES, st.dictionaries(st.sampled_from(["name", "score", "text", "x"]), VALUES)), max_size=3
)


@given(st.dictionaries(st.sampled_from(KEYS), st.one_of(VALUES, LISTS, st.floats())))
def test_no_value_of_a_question_raises_anything_else(values):
    with contextlib.suppress(RubricError):
        rubric(tomlkit.dumps({"question": [{"text": "W", **values}]}))


def test_every_vocabulary_that_comes_along_is_one_open_question_of_labels():
    found = {name: load_rubric(path) for name, path in vocabularies().items()}
    assert set(found) == {"agent-errors", "engineering-review", "harbor", "mast", "trail", "verifier-gaps"}
    assert len(found["mast"].questions[0].options) == 14
    for name, each in found.items():
        (question,) = each.questions
        assert (each.name, question.kind, question.open) == (name, "labels", True)
        assert all(option.text for option in question.options)
        assert all(option.name == category_slug(option.name) for option in question.options)
    actions = {"fix the verifier", "revise the instruction", "propose a task", "update the rubric"}
    assert set(known_actions().values()) == actions


def test_a_vocabulary_is_found_by_its_name_or_its_file(tmp_path):
    assert find_vocabulary("mast") == vocabularies()["mast"]
    (tmp_path / "mine.toml").touch()
    assert find_vocabulary(str(tmp_path / "mine.toml")) == tmp_path / "mine.toml"
    with pytest.raises(RubricError, match="there is no vocabulary 'must'; expected a file, or agent-errors, "):
        find_vocabulary("must")


def test_no_file_asks_for_turns():
    with pytest.raises(RubricError, match="only `seatrial classify` shows turns"):
        parse_rubric(b'evidence = ["turns"]\n[[question]]\ntext = "Well?"', "r.toml")


def test_a_file_has_a_bounded_number_of_questions():
    with pytest.raises(RubricError, match="there are 201, expected up to 200"):
        parse_rubric(b'[[question]]\ntext = "Well?"\n' * 201, "r.toml")
