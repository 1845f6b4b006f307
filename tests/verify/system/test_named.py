"""What a task talks about."""

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


@given(st.text(max_size=200), st.text("/abc.~*", min_size=1, max_size=20))
def test_any_text_can_be_asked(text, path):
    named = find_named([text])
    named.has_file(path)
    named.has_folder_of(f"/{path}")
    assert not named.has_folder_of("/x")
