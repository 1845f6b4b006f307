"""What has gone and what is still there, put together."""

from seatrial.sandbox.leftovers import Cleared, look_again


def test_what_is_there_again_is_left(tmp_path):
    (tmp_path / "there").mkdir()
    found = look_again([tmp_path / "gone", tmp_path / "there"])
    assert found == Cleared((str(tmp_path / "gone"),), (str(tmp_path / "there"),))


def test_findings_of_several_add_up():
    both = Cleared(("a",), ("b",), ("no broom",)) + Cleared(("c",))
    assert both == Cleared(("a", "c"), ("b",), ("no broom",))
