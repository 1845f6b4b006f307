"""Names of images, as people write them and as they mean the same everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.images.reference import Reference, parse_reference

DIGEST = "sha256:" + "0123456789abcdef" * 4

WORD = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
SEPARATOR = st.sampled_from([".", "_", "__", "-", "---"])
PART = st.builds(
    lambda first, rest: first + "".join(s + w for s, w in rest), WORD, st.lists(st.tuples(SEPARATOR, WORD), max_size=2)
)
PATH = st.lists(PART, min_size=1, max_size=3).map("/".join)
DOMAIN = st.sampled_from(
    [
        "docker.io",
        "localhost",
        "localhost:5000",
        "ghcr.io",
        "a.b-c.example:443",
        "127.0.0.1:5000",
        "[::1]:5000",
        "Host:1",
    ]
)
TAG = st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("team/app", "docker.io/team/app:latest"),
        ("index.docker.io/library/python", "docker.io/library/python:latest"),
        ("docker.io/python", "docker.io/library/python:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:1", "localhost:5000/app:1"),
        ("ghcr.io/a/b/c:x", "ghcr.io/a/b/c:x"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("UPPER/app", "UPPER/app:latest"),
        (f"python@{DIGEST}", f"docker.io/library/python@{DIGEST}"),
        (f"python:3@{DIGEST}", f"docker.io/library/python:3@{DIGEST}"),
    ],
)
def test_a_name_means(text, full):
    assert str(parse_reference(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":",
            "@",
            "/",
            "a/",
            "/a",
            "a//b",
            "A",
            "team/App",
            "a:",
            "a:-x",
            "a:b:c",
            "a b",
            "a_",
            "a___b",
            "a..b",
            "-a",
        ),
        *("a@sha256:1", "a@md5:" + "0" * 64, "ho st/a", "host:port/a", "http://host/a", "a" * 256, "a:" + "t" * 129),
        *("python:3.11\n", "ä", "[::1/a", "a@" + DIGEST.upper()),
    ],
)
def test_what_is_no_name_is_refused_by_name(text):
    with pytest.raises(UsageError, match="names no image"):
        parse_reference(text)


@given(DOMAIN, PATH, TAG, st.sampled_from([None, DIGEST]))
def test_the_full_name_and_the_familiar_name_mean_the_same(domain, path, tag, digest):
    if domain == "docker.io" and "/" not in path:
        path = f"library/{path}"
    tag = tag if tag or digest else "latest"
    reference = Reference(domain, path, tag, digest)
    assert parse_reference(str(reference)) == reference
    if path.partition("/")[0] != "localhost" and "." not in path.partition("/")[0]:
        assert parse_reference(reference.familiar) == reference


@given(st.text(max_size=40) | st.text("ab:/@.-_[]0", max_size=20))
def test_any_text_is_a_name_or_refused(text):
    try:
        reference = parse_reference(text)
    except UsageError:
        return
    assert parse_reference(str(reference)) == reference


def test_the_digest_decides():
    assert parse_reference(f"python:3@{DIGEST}").wanted == DIGEST
    assert parse_reference("python:3").wanted == "3"
