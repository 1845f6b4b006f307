"""The agent's logs as they are kept: without what a task's servers were told of this machine."""

import pytest

from seatrial.trial.work import hide_in_logs

SAID = 'tok-"12345'


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "agent" / "logs" / "x"
    folder.mkdir(parents=True)
    return folder


def test_secrets_become_stars_in_any_file(tmp_path, logs):
    (logs / "settings.json").write_text('{"Authorization": "tok-\\"12345"}')
    (logs / "a.db").write_bytes(b"\xff\0" + SAID.encode() + b"\0")
    (logs / "a.db").chmod(0o400)
    hide_in_logs(tmp_path, [SAID])
    assert (logs / "settings.json").read_text() == f'{{"Authorization": "{"*" * 11}"}}'
    assert (logs / "a.db").read_bytes() == b"\xff\0" + b"*" * 10 + b"\0"


def test_links_are_not_followed_and_short_words_stay(tmp_path, logs):
    outside = tmp_path / "outside"
    outside.write_text(SAID)
    (logs / "link").symlink_to(outside)
    (logs / "plain").write_text("a word")
    hide_in_logs(tmp_path, [SAID, "word"])
    assert outside.read_text() == SAID
    assert (logs / "plain").read_text() == "a word"


def test_no_logs_are_nothing_to_do(tmp_path):
    hide_in_logs(tmp_path, [SAID])
