"""Scripts as commands: their words, their order, and what becomes of their exit status."""

import sys
from collections.abc import Callable
from contextlib import contextmanager

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seatrial.tasks.shell import Command, read_script


def commands(text: str) -> list[str]:
    return [" ".join(command.words) for command in read_script(text) if command.words]


def of(text: str, word: str) -> Command:
    """The command that begins with a word."""
    return next(command for command in read_script(text) if command.words[:1] == (word,))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b; c\nd & e", ["a b", "c", "d", "e"]),
        ("a \\\n  b", ["a b"]),
        ("a # b\n# c\nd#e", ["a", "d#e"]),
        ("a 'b  c' \"d e\" f\\ g", ["a b  c d e f g"]),
        ("if a; then b; elif c; then d; else e; fi; f", list("abcdef")),
        ("while a; do b; done; for x in 1 2; do c; done; until d; do e; done", list("abcde")),
        ("case $x in a|b) c;; *) d ;; esac; e", list("cde")),
        ("{ a; b; }; (c; d)", list("abcd")),
        ("[[ -f a && ! -f b ]] && c", ["[[ -f a && ! -f b ]]", "c"]),
        ("a <<EOF\nb\nEOF\nc", ["a", "c"]),
        ("a <<'X' | b <<-Y\nx\nX\n\ty\n\tY\nc", ["a", "b", "c"]),
        ("A=1 B=2 a b", ["a b"]),
        ("bash -c 'a; b'; sh x.sh", ["a", "b", "sh x.sh"]),
        ("f() { a; }\nfunction g { b; }\nf; c; g", list("acb")),
        ("f() { a; f; }\nf", ["a", "f"]),
        ("D=/x; a $D/y ${D}z $E", ["a /x/y /xz $E"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("(( x = 1 << 2 )) || true\na", ["(( x = 1 << 2 ))", "true", "a"]),
        ("for ((i = 1 << 2; i; i--)); do a; done; b", ["a", "b"]),
        ("((a); b); ( (c) )", ["a", "b", "c"]),
        ("IFS=$'\\'' a\nb", ["a", "b"]),
        ("sep=$'it\\'s'\na $sep $'\\x41\\102\\u43\\t\\z' \"$'\" b", ["a it's ABC\t\\z $' b"]),
        ("a ${x%'}'}\nb", ["a ${x%}}", "b"]),
        ('a "${x%\'}\'}" "${x:-"b c"}" ${x%{}\nd', ["a ${x%'}'} ${x:-b c} ${x%{}", "d"]),
        ("a $(b ${x%)}) c\nd", ["b ${x%)}", "a $(b ${x%)}) c", "d"]),
        ("a $(b # it's\n)\nc", ["b", "a $(b # it's\n)", "c"]),
        ("a <<'END OF FILE'\nit's\nEND OF FILE\nb", ["a", "b"]),
        ('a <<"E!F"\nit\'s\nE!F\nb', ["a", "b"]),
        ("a <<E'!'\\ F <<$'G'\nit's\nE! F\n'\nG\nb", ["a", "b"]),
        ("a 3<<<'b c' d\ne", ["a d", "e"]),
        ("", []),
    ],
)
def test_the_words_of_a_script(text, found):
    assert commands(text) == found


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("x", "plain"),
        ("x; a", "plain"),
        ("a && x", "plain"),
        ("x && a", "tested"),
        ("x || a", "tested"),
        ("x || true", "ignored"),
        ("{ x; a; } || :", "ignored"),
        ("! x", "tested"),
        ("if x; then a; fi", "tested"),
        ("if a; then x; fi", "plain"),
        ("while x; do a; done", "tested"),
        ("if (x); then a; fi", "tested"),
        ("f() { x; }; if f; then a; fi", "tested"),
        ("f() { x; }; f", "plain"),
        ("v=$(x)", "plain"),
        ("echo $(x)", "lost"),
        ("export v=$(x)", "lost"),
    ],
)
def test_what_becomes_of_an_exit_status(text, status):
    assert of(text, "x").status == status


def test_where_a_command_stands():
    text = "a\nif b; then\n  x > /o 2>&1 | y\nfi\nv=$(z)"
    inner = of(text, "x")
    assert (inner.line, inner.depth, inner.piped, inner.captured) == (3, 1, True, False)
    assert inner.redirects == ((">", "/o"), ("2>&", "1"))
    assert (of(text, "y").piped, of(text, "z").captured, of(text, "z").line) == (False, True, 5)


def test_a_here_document_is_part_of_its_command():
    first, second = read_script("a <<EOF > /o\nb\nc\nEOF\nd")
    assert (first.redirects, second.line) == ((("<<", "b\nc\n"), (">", "/o")), 5)


@pytest.mark.parametrize(
    "text", ["/usr/bin/x y", "sudo -E x", "timeout -k5 60 x", "timeout 60 x", "env A=1 x", "A=1 nohup x"]
)
def test_what_is_run(text):
    (command,) = read_script(text)
    assert command.program == "x"


DEEP = ["(" * 5000, "$(" * 3000, '"$(' * 4000, "if " * 4000, '"' * 5001, "case x in " * 3000, "<<E " * 3000]
DEEP.append("".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}\n" for n in range(40)) + "f0\n")


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_nothing_is_too_deep(text):
    assert len(read_script(text)) <= 20_000


PARTS = st.sampled_from(
    r"""if then else fi while do done case esac in ) ( { } ; ;; & && || | ! [[ ]] " ' ` $( ${ \ < > << <<- EOF # x= $x
    f() function true pytest""".split()
)


@pytest.mark.parametrize(
    "word", ['"${x%\'"\'}"', '"$(b "${x:-\'"\'}")"', "${x:-$(b '}')}", "$'\\\\' '$'", "$(b ${x:-')'})"]
)
def test_a_script_goes_on_behind_a_word(word):
    assert commands(f"a {word}\nz")[-1] == "z"


@contextmanager
def at_most(steps: int):
    """Count the calls of functions, Python's own included, and end what makes more."""
    left = steps

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_call")
        if left < 0:
            raise AssertionError(f"more than {steps} steps")

    before: Callable[..., object] | None = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


def chain(length: int, calls: int, body: str) -> str:
    """Functions that call the next one several times, a body in the last, and the call of the first."""
    lines = [f"f{n}() {{ {f'f{n + 1}; ' * calls}}}\n" for n in range(length)]
    return "".join(lines) + f"f{length}() {{ {body}; }}\nf0\n"


STEPS = 4_000_000
EXPANSIVE = {
    "functions without commands": chain(19, 4, "g() { a; }"),
    "variables in functions": f"x={'y' * 999}\n" + chain(15, 3, "a " + "$x" * 700),
    "words in functions": chain(15, 3, "a " + "$ " * 1_200),
    "programs before the program": chain(15, 3, "env " * 400 + " $x"),
    "scripts within scripts": "bash -c 'echo N'\n" * 5_000,
    "redirections of a compound command": "{ " + "a;" * 5_000 + "}" + " >b" * 5_000,
    "brackets": "((" * 2_000,
}


@pytest.mark.parametrize("text", EXPANSIVE.values(), ids=EXPANSIVE)
def test_no_script_makes_more_work_than_its_length(text):
    read_script.cache_clear()
    with at_most(STEPS):
        found = read_script(text)
    assert sum(len(word) for command in found for word in command.words) <= 50 * STEPS
    assert sum(len(command.redirects) for command in found) <= STEPS


def test_the_commands_in_front_of_what_is_too_deep_stay():
    assert commands("a\nb\n" + '"$(' * 4000)[:2] == ["a", "b"]


TEXTS = st.builds(str.join, st.sampled_from(["", " ", "\n"]), st.lists(PARTS, max_size=500))
BODIES = st.sampled_from(["g() { a; }", "x=$x$x; a $x", "bash -c f0", "a $(f0)", "env " * 400 + "$x"]) | TEXTS


@given(TEXTS | st.builds(chain, st.integers(0, 40), st.integers(1, 8), BODIES))
def test_any_text_is_read_in_a_bounded_number_of_steps(text):
    assume(len(text) <= 3000)
    read_script.cache_clear()
    with at_most(STEPS):
        read_script(text)


@given(st.builds(str.join, st.sampled_from(["", " ", "\n"]), st.lists(PARTS, max_size=40)) | st.text())
def test_no_text_makes_it_fail(text):
    for command in read_script(text):
        assert isinstance(command.program, str)
