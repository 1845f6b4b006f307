"""What a task talks about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.system.named import find_named


def test_files_folders_and_words():
    named = find_named(["Edit `/etc/nginx/nginx.conf`, ~/.vimrc and $HOME/x; configure Postgres."])
    assert named.has_file("/etc/nginx/nginx.conf")
    assert named.has_file("/root/.vimrc")
    assert named.has_file("/root/x")
    assert named.has_word("POSTGRES")
    assert not named.has_file("/etc/nginx")


def test_a_folder_means_what_is_in_it_unless_it_is_too_wide():
    named = find_named(["Put files into /etc/nginx/ and programs into /usr/local/bin."])
    assert named.has_folder_of("/etc/nginx/conf.d/x.conf")
    assert not named.has_folder_of("/usr/local/bin/grep")


@pytest.mark.parametrize(
    ("text", "named", "other"),
    [
        ("Install jq and use it.", "jq", "it"),
        ("Go on. The package `nc` is missing.", "nc", "go"),
        ("`apt-get install -y bc`", "bc", "an"),
        ("python3-pip must be installed.", "pip", "be"),
        ("Add the Python package foo.", "foo", "jq"),
    ],
)
def test_programs_and_packages_of_short_and_long_names(text, named, other):
    found = find_named([text])
    assert found.has_program(named)
    assert not found.has_program(other)


def test_a_short_word_names_a_program_only_where_packages_are_talked_about():
    assert not find_named(["Write what `jq` prints."]).has_program("jq")


@given(st.text(max_size=200), st.text("/abc.~*", min_size=1, max_size=20))
def test_any_text_can_be_asked(text, path):
    named = find_named([text])
    named.has_file(path)
    named.has_folder_of(f"/{path}")
    assert not named.has_folder_of("/x")
