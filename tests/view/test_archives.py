"""An archive with a header on which the library's reader would be busy for hours is listed as far as that."""

import tarfile
import time

from seatrial.untrusted.files import BoundedContent
from seatrial.view.show import show_file
from tests.untrusted.test_tar import SOON, archive_with


def test_a_page_lists_what_comes_before_such_a_header():
    content = tarfile.TarInfo("first").tobuf() + archive_with(tarfile.XHDTYPE, b"1" * 2**16)
    began = time.monotonic()
    shown = show_file("results.tar", BoundedContent(content, b"", len(content)))
    assert time.monotonic() - began < SOON
    assert "first" in shown.html
    assert "a number that is too long" in shown.note
