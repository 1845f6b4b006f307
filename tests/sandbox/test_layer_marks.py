"""How large a layer may be."""

import pytest

from seatrial.errors import TooLargeError
from seatrial.sandbox.layer_marks import refuse_large

MIB = 2**20


@pytest.mark.parametrize(
    ("contents", "entries", "message"),
    [
        (33 * MIB, 1, "has 34,603,520 bytes, and the limit is 33,554,432"),
        (0, 6000, "6,000 files and directories differ from the image, and the limit is 5,461"),
    ],
)
def test_what_would_take_long_is_refused(contents, entries, message):
    with pytest.raises(TooLargeError, match=message):
        refuse_large(contents, entries, 32 * MIB)


def test_few_entries_are_never_too_many():
    refuse_large(0, 512, 2**18)
