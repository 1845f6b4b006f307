"""The control groups around this process."""

from itertools import pairwise

from seatrial.sandbox.own_groups import OwnGroup, own_groups


def test_numbers_are_read_and_what_is_none_is_none(tmp_path):
    (tmp_path / "pids.max").write_text("max\n")
    (tmp_path / "memory.events").write_text("low 0\noom 7\n")
    group = OwnGroup(tmp_path, 2)
    assert group.number("pids.max") is None
    assert group.number("memory.events", "oom") == 7
    assert group.number("memory.events", "missing") is None
    assert group.number("not.there") is None


def test_they_are_found_from_our_own_up_to_the_top():
    for controller in ("pids", "memory"):
        paths = [group.path for group in own_groups(controller)]
        assert all(later == earlier.parent for earlier, later in pairwise(paths))
