"""Why a program does not start, in words that say what to do."""

import re

import pytest

from seatrial.images.baking.fitness import why_unfit


@pytest.mark.parametrize(
    ("exit_code", "stderr", "said"),
    [
        (
            126,
            "noise\npi 1 cannot start in this image: it needs /lib/x, and there is none\n",
            "it needs /lib/x.*image that",
        ),
        (1, "/lib/libc.so.6: version `GLIBC_2.38' not found", "C library is too old"),
        (126, "sh: pi: Exec format error", "another architecture"),
        (127, "", "no /bin/sh"),
        (-11, "", r"ended by signal 11 \(it crashed\), silently"),
        (None, "", "did not end in time"),
        (2, "a\nno such option\n", "exit code 2: no such option"),
    ],
)
def test_the_end_of_a_program_tells(exit_code, stderr, said):

    assert re.search(said, why_unfit(exit_code, stderr))
