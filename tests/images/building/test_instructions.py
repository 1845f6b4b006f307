"""Instructions as typed values, and what is said about those that make no sense."""

import pytest

from seatrial.errors import BuildError
from seatrial.images.building.instructions import (
    Arg,
    Assign,
    BuildCommand,
    Copy,
    From,
    Healthcheck,
    Run,
    Start,
    read_steps,
)
from seatrial.tasks.dockerfile import parse_dockerfile


def one(line: str):
    return read_steps(parse_dockerfile(f"FROM a\n{line}"))[1].what


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("FROM x", From("x", None, None)),
        ("FROM --platform=linux/amd64 x AS Name", From("x", "name", "linux/amd64")),
        ("ARG A B=1 C='x y'", Arg((("A", None), ("B", "1"), ("C", "'x y'")))),
        ("ENV A=1 B='x y' C=a\\ b", Assign("ENV", (("A", "1"), ("B", "'x y'"), ("C", "a\\ b")))),
        ("ENV A b c=d", Assign("ENV", (("A", "b c=d"),))),
        ("LABEL a.b=c", Assign("LABEL", (("a.b", "c"),))),
        ('CMD ["a", "b"]', Start("CMD", BuildCommand(("a", "b"), "exec"))),
        ('CMD ["a", b]', Start("CMD", BuildCommand(('["a", b]',), "shell"))),
        ("ENTRYPOINT a b", Start("ENTRYPOINT", BuildCommand(("a b",), "shell"))),
        ("HEALTHCHECK NONE", Healthcheck(None)),
        (
            "HEALTHCHECK --interval=1m30s --retries=3 CMD a",
            Healthcheck(BuildCommand(("a",), "shell"), (("interval", 90 * 10**9), ("retries", 3))),
        ),
    ],
)
def test_shapes(line, expected):
    assert one(line) == expected


def test_run_with_a_document_that_is_the_whole_command():
    run = one("RUN <<EOF\na\nb\nEOF")
    assert isinstance(run, Run)
    assert run.command == BuildCommand(("a\nb\n",), "shell")


def test_run_with_a_document_in_a_command_line():
    run = one("RUN cat <<-EOF >x && y\n\ta\n\tEOF")
    assert isinstance(run, Run)
    assert run.command == BuildCommand(("cat <<-EOF >x && y\n\ta\nEOF",), "shell")


def test_run_with_a_script():
    run = one("RUN <<EOF\n#!/usr/bin/env python3\nprint()\nEOF")
    assert isinstance(run, Run)
    assert run.script
    assert run.script.text.startswith("#!")


def test_copy():
    assert one("COPY --from=b --chown=u:g --chmod=755 --link --exclude=*.x a /c/") == Copy(
        "COPY", ("a",), (), "/c/", "b", "u:g", "755", ("*.x",)
    )
    assert one('COPY ["a b", "/c d/"]') == Copy("COPY", ("a b",), (), "/c d/", None, None, None, ())


def test_mounts_that_only_save_time():
    run = one("RUN --mount=type=cache,target=/root/.cache,sharing=locked --mount=type=tmpfs,dst=/t x")
    assert isinstance(run, Run)
    assert run.caches == ("/root/.cache", "/t")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("FOO bar", "unsupported instruction"),
        ("FROM", "needs an argument"),
        ("FROM a b", "expected `IMAGE`"),
        ("FROM a AZ b", "expected `IMAGE`"),
        ("RUN", "needs an argument"),
        ("RUN --mount=type=secret,id=x y", "unsupported --mount=type=secret"),
        ("RUN --mount=type=bind,target=/x y", "unsupported --mount"),
        ("RUN --security=insecure x", "unsupported flag --security"),
        ("RUN --network=host x", "--network takes default or none"),
        ("COPY a", "at least one source"),
        ("COPY a b c", "must be a directory: write 'c/'"),
        ("COPY --from a b", "needs a value"),
        ("COPY --from=a --from=b c d", "given twice"),
        ("COPY --parents a b", "unsupported flag --parents"),
        ("ADD https://example.org/x /y", "not supported; use RUN"),
        ("ADD git@example.org:x.git /y", "not supported; use RUN"),
        ("ENV A", "expected `NAME=VALUE`"),
        ("ENV A=1 B", "expected `NAME=VALUE`, found 'B'"),
        ("ENV =1", "expected `NAME=VALUE`"),
        ("ARG =1", "needs a name"),
        ("SHELL /bin/sh", "expected a JSON list"),
        ('CMD ["a", 1]', "strings only"),
        ("HEALTHCHECK x", "expected `CMD"),
        ("HEALTHCHECK --interval=5 CMD x", "no duration"),
        ("HEALTHCHECK --retries=x CMD y", "--retries takes a number"),
        ("ONBUILD FROM x", "not allowed"),
        ("ONBUILD ONBUILD RUN x", "not allowed"),
        ("ONBUILD FOO", "unsupported instruction"),
    ],
)
def test_mistakes(line, part):
    with pytest.raises(BuildError, match=part) as raised:
        one(line)
    assert str(raised.value).startswith("Dockerfile:2: ")


def test_something_before_from():
    with pytest.raises(BuildError, match="Dockerfile:2: the first instruction"):
        read_steps(parse_dockerfile("ARG A\nRUN x\nFROM a"))
    with pytest.raises(BuildError, match="must be FROM"):
        read_steps(parse_dockerfile("ARG A"))
