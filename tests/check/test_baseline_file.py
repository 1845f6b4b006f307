"""Baselines: what is known fails nothing, what is new does, and what is gone is said."""

import pytest

from seatrial.check.baseline_file import CheckBaseline, read_baseline, write_baseline
from seatrial.check.grade import fails
from seatrial.errors import UsageError
from seatrial.model.check import CheckOutcome
from tests.check.test_grade import finding, result


def test_what_was_written_is_known_and_only_new_findings_count(tmp_path):
    path = tmp_path / "deep/known.json"
    old = result(finding("critical", "old"), finding("minor", "meant", accepted=True))
    assert write_baseline(path, [old]) == 1
    now = result(finding("critical", "old"), finding("major", "new"))
    marked = read_baseline(path).marked(now)
    assert [each.known for each in marked.findings] == [True, False]
    assert marked.grade == "C"
    assert not fails(read_baseline(path).marked(old), "minor")


def test_findings_of_another_task_are_not_known():
    check = result(finding("major"))
    assert CheckBaseline(known={"other": ("V5/x",)}).marked(check) == check


def test_what_is_gone_is_said_of_tasks_that_were_checked():
    baseline = CheckBaseline(known={"t": ("V5/x", "V5/y"), "not checked": ("V5/z",)})
    done = CheckOutcome(check="V5", status="failed", tried=6)
    assert baseline.gone([result(finding("major", "y"), outcomes=(done,))]) == {"t": ("V5/x",)}


@pytest.mark.parametrize("changed", [{"check": "V2"}, {"status": "skipped"}, {"left_out": 1}])
def test_what_was_not_looked_at_is_not_gone(changed):
    outcome = CheckOutcome(check="V5", status="passed", tried=6).model_copy(update=changed)
    assert not CheckBaseline(known={"t": ("V5/x",)}).gone([result(outcomes=(outcome,))])


def test_the_same_findings_make_the_same_file(tmp_path):
    one, two = finding("major", "a"), finding("minor", "b")
    write_baseline(tmp_path / "1", [result(one, two)])
    write_baseline(tmp_path / "2", [result(two, one)])
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"known": {"t": [1]}}'])
def test_what_is_no_baseline_is_refused_with_a_way_out(tmp_path, content):
    path = tmp_path / "known.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"known\.json.*--write-baseline"):
        read_baseline(path)
