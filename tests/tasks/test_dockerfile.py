"""The text of a Dockerfile: joined lines, comments, directives, flags, here-documents."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.errors import BuildError
from seatrial.images.building.instructions import BuildCommand, Run, read_steps
from seatrial.tasks.dockerfile import (
    WordError,
    expand,
    parse_dockerfile,
    parse_list,
    quotes_match,
    split_raw,
    unquote,
)

KEYWORDS = st.sampled_from(
    "FROM RUN COPY ADD ENV ARG WORKDIR USER SHELL CMD LABEL EXPOSE VOLUME HEALTHCHECK ONBUILD".split()
)
SIGNS = st.text(st.sampled_from("ab=:/.$ \t\\\"'[]{},<>-#`!*\n\r\0é\ud800"))
DOCKERFILES = st.lists(st.tuples(KEYWORDS, SIGNS)).map(lambda lines: "\n".join(f"{key} {rest}" for key, rest in lines))


def read(text: str) -> list[tuple[str, tuple[str, ...], str, int]]:
    return [(each.keyword, each.flags, each.arguments, each.line) for each in parse_dockerfile(text).instructions]


def test_lines_comments_and_case():
    text = "# syntax=x\n\n  from a\n#c\nRUN echo # no comment\n   # c\nCmd x\n"
    assert read(text) == [("FROM", (), "a", 3), ("RUN", (), "echo # no comment", 5), ("CMD", (), "x", 7)]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("RUN a \\\n  b", "a   b"),
        ("RUN a \\  \n  b", "a   b"),
        ("RUN a \\\n# comment\n  # another\n\n  b", "a   b"),
        ("RUN a\\\\\nCMD b", "a\\\\"),
        ("RUN a \\", "a"),
        ("RUN a \\\r\n b\r\n", "a  b"),
        ("# escape=`\nRUN a ` \n b\\\nCMD x", "a  b\\"),
        ("\ufeffRUN a", "a"),
        ("RUN \\\n\\\na", "a"),
    ],
)
def test_continued_lines(text, arguments):
    assert parse_dockerfile(text).instructions[0].arguments == arguments


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("# escape=x\nFROM a", "Dockerfile:1: `# escape=`"),
        ("# escape=`\n# escape=`\nFROM a", "Dockerfile:2: a second"),
        ("", "no instructions"),
        ("# only\n", "no instructions"),
        ("FROM a\nRUN <<EOF\nx", "Dockerfile:2: the here-document"),
        ("FROM a\n\nRUN x\0", "Dockerfile:3: expected text"),
        ("FROM a\nRUN [1] <<EOF", "Dockerfile:2: a JSON list|Dockerfile:2: the here-document"),
    ],
)
def test_mistakes_have_a_place(text, part):
    with pytest.raises(BuildError, match=part):
        parse_dockerfile(text)


def test_a_directive_after_a_comment_is_a_comment():
    assert parse_dockerfile("# hello\n# escape=`\nRUN a \\\nb").escape == "\\"


def test_flags():
    text = "COPY --from=x --chown='a b':c --link -- --odd /y\nRUN --mount=type=cache,target=/x  cmd --flag"
    assert read(text) == [
        ("COPY", ("--from=x", "--chown=a b:c", "--link"), "--odd /y", 1),
        ("RUN", ("--mount=type=cache,target=/x",), "cmd --flag", 2),
    ]


@pytest.mark.parametrize(
    ("opening", "body", "text", "quoted"),
    [
        ("<<EOF", "a $x\n", "a $x\n", False),
        ("<<'EOF'", "a\n", "a\n", True),
        ('<<"EOF"', "a\n", "a\n", True),
        ("<<-EOF", "\t\ta\n\tb\n c\n", "a\nb\n c\n", False),
        ("3<<EOF", "", "", False),
    ],
)
def test_here_documents(opening, body, text, quoted):
    end = "\t\tEOF" if "-" in opening else "EOF"
    (run, cmd) = parse_dockerfile(f"RUN cat {opening} > /x\n{body}{end}\nCMD x").instructions
    (document,) = run.heredocs
    assert (document.name, document.text, document.quoted) == ("EOF", text, quoted)
    assert cmd.line == body.count("\n") + 3


def test_several_here_documents_on_a_line():
    (copy,) = parse_dockerfile("COPY <<one <<two /x/\n1\none\n2\ntwo\n").instructions
    assert [(document.name, document.content) for document in copy.heredocs] == [("one", "1\n"), ("two", "2\n")]


@pytest.mark.parametrize(
    "line",
    ["RUN a <<< b", 'RUN ["cat", "<<EOF"]', "ENV a=<<EOF", "RUN echo 'a <<EOF", "RUN echo $((1<<2))", "RUN x<<EOF"],
)
def test_what_opens_no_here_document(line):
    assert parse_dockerfile(f"{line}\nCMD x").instructions[0].heredocs == ()
    assert len(parse_dockerfile(f"{line}\nCMD x").instructions) == 2


def test_a_test_in_brackets_is_no_list():
    (run,) = parse_dockerfile("RUN [ -f x ] && cat <<EOF\na\nEOF\n").instructions
    assert run.heredocs[0].content == "a\n"


@given(st.one_of(st.text(), DOCKERFILES))
@example("ONBUILD #")
def test_any_text_is_read_or_refused_with_its_place(text):
    try:
        read_steps(parse_dockerfile(text, "the file"))
    except BuildError as error:
        assert str(error).startswith("the file")


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1))
def test_however_lines_are_broken_the_words_are_the_same(words):
    plain = parse_dockerfile("RUN " + " ".join(words)).instructions[0]
    broken = parse_dockerfile("RUN " + " \\\n  # comment\n".join(words)).instructions[0]
    assert plain.arguments.split() == broken.arguments.split()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RUN cat > f << 'EOF'\n$x\nEOF\n", ["EOF"]),
        ('RUN cat <<- EOF > f && cat << "B"\n\tx\n\tEOF\ny\nB\n', ["EOF", "B"]),
        ("RUN << EOF\necho hi\nEOF\n", ["EOF"]),
        ("RUN echo $((1 << 3)) $((x << y))\nRUN x\n", []),
        ("RUN echo a << b\n", []),
        ("COPY << EOF /x\n", []),
    ],
)
def test_a_space_before_the_name_of_a_here_document_is_as_good_as_none(text, names):
    found = parse_dockerfile(f"FROM a\n{text}CMD end").instructions
    assert [document.name for document in found[1].heredocs] == names
    assert found[-1].keyword == "CMD"


def test_such_a_document_alone_is_the_script():
    step = read_steps(parse_dockerfile("FROM a\nRUN << EOF\necho hi\nEOF\n"))[1].what
    assert isinstance(step, Run)
    assert step.command == BuildCommand(("echo hi\n",), "shell")


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
