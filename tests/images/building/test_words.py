"""Words of Dockerfiles: quotes, escapes, variables, by Docker's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.images.building.words import WordError, expand, parse_list, quotes_match, split_raw, unquote

KNOWN = {"NAME": "value", "EMPTY": "", "PATH": "/usr/bin:/bin", "FILE": "a.tar.gz", "1": "one", "STAR": "a*b"}
# What means itself.
PLAIN = st.text(st.characters(exclude_characters="$'\"\\", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$NAME", "value"),
        ("${NAME}", "value"),
        ("x${NAME}y$NAME", "xvalueyvalue"),
        ("$NAMES", ""),
        ("$NAME-1", "value-1"),
        ("$MISSING", ""),
        ("${MISSING}", ""),
        ("\\$NAME", "$NAME"),
        ("\\${NAME}", "${NAME}"),
        ("'$NAME'", "$NAME"),
        ('"$NAME"', "value"),
        ('"\\$NAME"', "$NAME"),
        ('"a\\"b"', 'a"b'),
        ('"a\\nb"', "a\\nb"),
        ("a\\nb", "anb"),
        ("'a\"b'", 'a"b'),
        ('"it\'s"', "it's"),
        ("''", ""),
        ("$", "$"),
        ("a$", "a$"),
        ("$/x", "$/x"),
        ("$1", "one"),
        ("$12", ""),
        ("$$", ""),
        ("${MISSING:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY-default}", ""),
        ("${MISSING-default}", "default"),
        ("${NAME:-default}", "value"),
        ("${NAME:+other}", "other"),
        ("${EMPTY:+other}", ""),
        ("${EMPTY+other}", "other"),
        ("${MISSING+other}", ""),
        ("${NAME:?no}", "value"),
        ("${MISSING:-$NAME}", "value"),
        ("${MISSING:-${EMPTY:-deep}}", "deep"),
        ("${MISSING:-'$NAME'}", "$NAME"),
        ("${FILE#*.}", "tar.gz"),
        ("${FILE##*.}", "gz"),
        ("${FILE%.*}", "a.tar"),
        ("${FILE%%.*}", "a"),
        ("${FILE%.zip}", "a.tar.gz"),
        ("${PATH/bin/sbin}", "/usr/sbin:/bin"),
        ("${PATH//bin/sbin}", "/usr/sbin:/sbin"),
        ("${STAR#a\\*}", "b"),
        ("${STAR#[ab]}", "a*b"),
        ("trailing\\", "trailing"),
    ],
)
def test_variables_and_quotes(text, expected):
    assert expand(text, KNOWN) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("'open", "single quote"),
        ('"open', "double quote"),
        ("${NAME", "missing"),
        ("${}", "not followed by a name"),
        ("${:x}", "not followed by a name"),
        ("${NAME^^}", "means nothing"),
        ("${NAME:x}", "means nothing"),
        ("${MISSING:?give it}", "MISSING: give it"),
        ("${EMPTY:?}", "EMPTY: it must be set"),
        ("${NAME/a", "missing"),
        ("${a:-" * 60 + "}" * 60, "nested"),
    ],
)
def test_what_cannot_be_read_says_why(text, part):
    with pytest.raises(WordError, match=part):
        expand(text, KNOWN)


def test_another_escape_character():
    assert expand("a`$NAME\\x", KNOWN, escape="`") == "a$NAME\\x"


def test_quotes_stay_in_here_documents():
    assert expand("a \"$NAME\" 'b$NAME' \\$x\n", KNOWN, quotes="keep") == "a \"value\" 'bvalue' $x\n"


def test_unquote_leaves_variables():
    assert unquote("--from='$NAME'\"${X:-y}\"") == "--from=$NAME${X:-y}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b  c", ["a", "b", "c"]),
        ("a='b c' d", ["a='b c'", "d"]),
        ('a="b \\" c" d', ['a="b \\" c"', "d"]),
        ("a\\ b c", ["a\\ b", "c"]),
        ("'' x", ["''", "x"]),
        ("a \\", ["a"]),
        ("'open b", ["'open b"]),
        ("", []),
    ],
)
def test_raw_words(text, expected):
    assert split_raw(text) == expected


def test_matching_quotes():
    assert quotes_match("a 'b' \"c'\"")
    assert not quotes_match("it's")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a", "b c"]', ("a", "b c")),
        ("  []", ()),
        ("['a']", None),
        ('["a",]', None),
        ("[ -f x ] && y", None),
        ("echo", None),
        ('["\\ud800"]', ("\ufffd",)),
        ("[" * 100_000, None),
    ],
)
def test_lists(text, expected):
    assert parse_list(text) == expected


@pytest.mark.parametrize("text", ['["a", 1]', "[null]", '["a\\u0000"]', '[["a"]]'])
def test_lists_of_anything_but_strings(text):
    with pytest.raises(WordError):
        parse_list(text)


@given(PLAIN)
def test_text_without_signs_means_itself(text):
    assert expand(text, KNOWN) == text


@given(st.text(st.sampled_from("${}:-+?#%/'\"\\ aNAME1*[")))
def test_nothing_but_a_word_error_is_raised(text):
    try:
        assert isinstance(expand(text, KNOWN), str)
        split_raw(text)
        parse_list(text)
    except WordError as error:
        assert str(error)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="'"), min_size=1)))
def test_quoted_words_come_back(words):
    line = " ".join(f"'{word}'" for word in words)
    assert [expand(word, {}) for word in split_raw(line)] == words
