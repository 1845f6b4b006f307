import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.record import FileChanges
from seatrial.review.blind import changed_files, desk_key, is_revealed, item_key
from tests.jobs.samples import job_file
from tests.review.journals import said, taken_back

JOB = job_file().model_copy(update={"id": "one"})
OTHER = JOB.model_copy(update={"id": "two"})


@given(st.text(), st.text())
def test_keys_say_nothing_and_are_each_their_own(one, other):
    assert re.fullmatch(r"[0-9a-f]{24}", item_key(JOB, one))
    assert (item_key(JOB, one) == item_key(JOB, other)) == (one == other)
    assert len({item_key(JOB, one), item_key(OTHER, one), desk_key(JOB, one), desk_key(OTHER, one)}) == 4
    assert (desk_key(JOB, one) == desk_key(JOB, other)) == (one == other)


def test_keys_are_the_same_in_every_copy_of_a_folder():
    copy = JOB.model_copy()
    assert item_key(JOB, "add.noop.1") == item_key(copy, "add.noop.1")
    assert desk_key(JOB, "jobs~add") == desk_key(copy, "jobs~add")


def test_who_has_given_a_verdict_knows_also_after_taking_it_back():
    entry = said("t", "ada", "pass")
    assert not is_revealed("ada", [])
    assert not is_revealed("bob", [entry])
    assert is_revealed("ada", [entry])
    assert is_revealed("ada", [entry, taken_back(entry)])


@pytest.mark.parametrize(
    ("path", "instruction", "shown"),
    [
        ("/workspace/result.json", "", True),
        ("/workspace/deep/er/x", "", True),
        ("/workspace", "", False),
        ("/workshop/x", "", False),
        ("/etc/passwd", "", False),
        ("/workspace/../etc/passwd", "", False),
        ("/workspace/.agent/log", "", False),
        ("/workspace/.agent.json", "", False),
        ("/workspace/a/.cache/x", "", False),
        ("/workspace/.github/ci.yml", "", False),
        ("/workspace/.github/ci.yml", "Write .github/ci.yml.", True),
    ],
)
def test_the_work_is_what_is_below_the_work_directory_and_not_the_agents_own(path, instruction, shown):
    found = changed_files(FileChanges(added=(path,)), "/workspace", instruction)
    assert [each.name for each in found] == ([path] if shown else [])


def test_what_was_done_to_files_is_told():
    found = changed_files(FileChanges(added=("/w/a",), modified=("/w/m",), removed=("/w/r",)), "/w", "")
    assert [(each.name, each.role) for each in found] == [("/w/a", "added"), ("/w/m", "modified"), ("/w/r", "removed")]
