"""What owners on this machine stand for inside of an image."""

import os

from seatrial.images.layer_owners import OwnersHere


def status(uid: int, gid: int) -> os.stat_result:
    return os.stat_result((0, 0, 0, 0, uid, gid, 0, 0, 0, 0))


def test_for_root_owners_are_who_they_are():
    everybody = OwnersHere((0, 0), ((1, 2**32 - 2), (1, 2**32 - 2)))
    assert [everybody.inside(status(uid, uid + 1)) for uid in (0, 1, 1000)] == [(0, 1), (1, 2), (1000, 1001)]


def test_for_a_user_own_files_are_roots():
    user = OwnersHere((1007, 1008), ((100_000, 65536), (200_000, 65536)))
    assert user.inside(status(1007, 1008)) == (0, 0)
    assert user.inside(status(100_000, 200_000)) == (1, 1)
    assert user.inside(status(100_999, 200_049)) == (1000, 50)
    assert user.inside(status(99_999, 5)) == (0, 0)
