"""Where images are kept, and places that are no good for it."""

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.images.cache import usable


def test_a_place_that_cannot_be_made_is_named_with_a_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HostUnsupportedError, match=r"file/cache, the place for images, cannot be made"):
        usable(tmp_path / "file" / "cache")


def test_a_place_is_made_for_its_user_alone(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    for name in ("open", "new"):
        assert usable(tmp_path / name).stat().st_mode & 0o777 == 0o700
