"""Tests that are laid out with other files among them."""

from seatrial.verify.stage import pack_tests, with_others


def test_other_files_among_the_tests_are_another_digest(tmp_path):
    (tmp_path / "test.sh").write_text("#!/bin/sh\n")
    tests = pack_tests([tmp_path])
    one, two = with_others(tests, {"test.sh": b"1"}), with_others(tests, {"test.sh": b"2"})
    assert len({tests.digest, one.digest, two.digest}) == 3
    assert with_others(tests, {"test.sh": b"1"}) == one
