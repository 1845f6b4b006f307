from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.review.categories import category_slug, used_categories
from tests.review.journals import said, taken_back


def test_slugs_have_levels():
    assert category_slug(" Wrong unit / kN ") == "wrong_unit/kn"
    assert category_slug("Größe falsch!") == "größe_falsch"
    assert category_slug("//a//b//") == "a/b"
    assert category_slug("…") == ""
    assert category_slug("wrong-method") == "wrong-method"  # as others may have given it to `annotate`
    assert category_slug("a:_b") == "a_b"


@given(st.text())
@example("wrong_ unit")
def test_a_slug_is_its_own_slug(text):
    slug = category_slug(text)
    assert category_slug(slug) == slug
    assert not set(slug) & set(" \n\t<>\"'&")


def test_what_is_used_most_comes_first_without_what_was_taken_back():
    wrong = said("t", "ada", "fail", categories=["typo"])
    entries = [
        said("t", "ada", "fail", categories=["unit", "sign"]),
        said("u", "bob", "fail", categories=["unit", "unit"]),
        said("u", "bob", "fail", categories=["method"]),
        wrong,
        taken_back(wrong),
    ]
    assert used_categories(entries) == ["unit", "method", "sign"]
