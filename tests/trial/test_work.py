"""What an agent left: its logs as they are kept, without what a task's servers were told, and what listens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.record import FileChanges
from seatrial.trial.work import Work, hide_in_logs, listening
from seatrial.verify.artifacts import KeptArtifact

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


TABLES = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1591 1 00000 100 0 0 10 0
   1: 0100007F:1F40 0100007F:8A02 01 00000000:00000000 00:00000000 00000000     0        0 1592 1 00000 20 4 30 10 -1
  sl  local_address                         remote_address                        st tx_queue rx_queue
  12: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 1600 1 0
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  333: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1700 2 00000 0
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01  1800 /run/a service.sock
0000000000000000: 00000003 00000000 00000000 0001 03  1801 /run/connected.sock
0000000000000000: 00000002 00000000 00010000 0001 01  1802 @abstract
"""  # noqa: E501 - as the kernel prints them


def test_what_listens_is_told_from_what_is_connected():
    assert listening(TABLES) == ("tcp:80", "tcp:8000", "udp:53", "unix:/run/a service.sock", "unix:@abstract")


def test_sockets_of_our_own_are_left_out():
    assert listening(TABLES, {"1591", "1800"}) == ("tcp:80", "udp:53", "unix:@abstract")


@given(st.text() | st.text(alphabet="0123456789ABCDEF: \n"))
def test_whatever_an_agent_prints_instead_is_read(printed):
    assert len(listening(printed + TABLES * 2)) <= 50


@pytest.mark.parametrize(("path", "said"), [("/app/text", "fine"), ("/app/link", None), ("/app", None), ("/etc", None)])
def test_what_a_separate_verifier_gets_is_read_through_no_link(tmp_path, path, said):
    (tmp_path / "app").mkdir()
    (tmp_path / "app/text").write_text("fine")
    (tmp_path / "app/link").symlink_to("/etc/hostname")
    kept = KeptArtifact(source="/app", destination="app", type="directory", status="ok")
    work = Work(None, FileChanges(), FileChanges(), (), (kept,), tmp_path)
    assert work.read_kept(path) == said
