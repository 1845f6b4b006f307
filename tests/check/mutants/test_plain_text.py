from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.plain_text import TextMutants

WORDS = Vocabulary("Write `total` and the names `alder`, `birch`, `cedar`.", {})


def changes(text: str) -> list[str]:
    return [mutant.change for round_ in TextMutants(text, WORDS).rounds() for mutant in round_]


def test_a_lone_number_is_made_wrong():
    assert changes("42\n") == [
        "the number is 420 instead of 42",
        "the number is 50 instead of 42",
        "the number is 63 instead of 42",
        "the number is -42 instead of 42",
    ]


def test_numbers_have_the_label_before_them():
    assert changes("total: 12.5\nother = 8\n")[:2] == ["total is 125.0 instead of 12.5", "other is 80 instead of 8"]
    assert changes("<a><width unit='7'>3.5</width></a>")[:2] == [
        "unit is 70 instead of 7",
        "width is 35.0 instead of 3.5",
    ]


def test_a_line_of_text_becomes_another():
    assert changes("flag{abc}\n") == ["the text is '}cba{galf' instead of 'flag{abc}'"]


def test_lists_of_known_names_lose_a_line():
    made = changes("alder\nbirch\ncedar\n")
    assert made == ["line 3 of 3 is missing", "line 1 of 3 is missing", "line 2 of 3 is missing"]


def test_prose_dates_versions_and_paths_stay():
    assert changes("The pump was tried at 42 bar for 17 minutes, and held.\n") == []
    assert changes("2024-05-06 10:20\nv1.2.3\n/opt/7\n") == []
