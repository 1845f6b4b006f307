"""Which images a Dockerfile names, whatever else it says."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import BuildError
from seatrial.images.building.plan import images_named_in, named_images
from seatrial.tasks.dockerfile import parse_dockerfile


def names(text):
    return [name for _, name in named_images(parse_dockerfile(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FROM python:3.11", ["python:3.11"]),
        ("from /etc", ["/etc"]),
        ("FROM --platform=linux/amd64 host AS x", ["host"]),
        ("FROM python AS host\nFROM host\nCOPY --from=host /a /b\nCOPY --from=0 /a /b", ["python"]),
        ("FROM python\nCOPY --from=/etc shadow /", ["python", "/etc"]),
        ("FROM python\nRUN --mount=type=bind,from=oci:/x,target=/y ls", ["python", "oci:/x"]),
        ("ARG BASE=/etc\nFROM $BASE", ["/etc"]),
        ("ARG A=/e\nARG B=${A}tc\nFROM python\nARG B=python\nFROM ${B}", ["python", "/etc"]),
        ("FROM \\\n  /etc", ["/etc"]),
        ("# escape=`\nFROM `\n  /etc", ["/etc"]),
        ("FROM ${", []),
        ("FROM a\nUNKNOWN --from=b c", ["a", "b"]),
    ],
)
def test_bases_and_origins_are_found(text, found):
    assert names(text) == found


def test_places_have_file_and_line(tmp_path):
    path = tmp_path / "Dockerfile"
    path.write_text("FROM a\nCOPY --from=b x y\n")
    assert images_named_in(path) == [(f"{path}:1: FROM", "a"), (f"{path}:2: COPY", "b")]


def test_a_link_to_one_is_followed_and_nobody_waits_for_a_pipe(tmp_path):
    (tmp_path / "other").write_text("FROM a\n")
    (tmp_path / "Dockerfile").symlink_to("other")
    assert [name for _, name in images_named_in(tmp_path / "Dockerfile")] == ["a"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BuildError, match="cannot be read"):
        images_named_in(tmp_path / "pipe")


def test_what_is_no_dockerfile_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "Dockerfile"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(BuildError, match="more than 1,048,576 bytes"):
        images_named_in(path)
    with pytest.raises(BuildError, match="cannot be read"):
        images_named_in(tmp_path)


@given(st.text(alphabet=st.sampled_from("FROM COPYARG--from=,${}\\\n/abc<'\"#"), max_size=80))
def test_no_text_makes_it_fail(text):
    try:
        dockerfile = parse_dockerfile(text)
    except BuildError:
        return
    assert all(isinstance(name, str) for _, name in named_images(dockerfile))


@pytest.mark.parametrize(
    "text",
    [
        "FROM python:3.11-slim\n",
        "# from here on\nARG X=1\nfrom  host\r\nRUN python -c 'import x'\n",
        "FROM a\nRUN echo \\\n  from b\n",
        "FROM a AS b\nFROM b\n",
        "FROM \\\n  /etc\n",
        "FR\\\nOM /etc\nRUN x\n",
        "FROM $X\n",
        "FROM a\nCOPY --from=/etc x y\n",
        "# escape=`\nFROM a\n",
        "FROM --platform=linux/amd64 a\n",
        "RUN <<EOF\nFROM b\nEOF\n",
        "\nFROM a\n",
    ],
)
def test_the_short_way_says_the_same_as_the_long_one(tmp_path, text):
    path = tmp_path / "Dockerfile"
    path.write_text(text, newline="")
    try:
        long = list(named_images(parse_dockerfile(text, str(path))))
    except BuildError:
        return
    assert images_named_in(path) == long
