"""What an added file may stand in front of."""

import pytest

from seatrial.verify.system.shadows import covered_by


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("/usr/local/include/stdio.h", "/usr/include/stdio.h"),
        ("/usr/local/lib/pkgconfig/zlib.pc", "/usr/lib/pkgconfig/zlib.pc"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/as", "/usr/bin/as"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/crt1.o", "/usr/lib/x86_64-linux-gnu/crt1.o"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/include/stdio.h", "/usr/include/stdio.h"),
        ("/usr/x86_64-linux-gnu/bin/as", "/usr/bin/as"),
        ("/usr/include/x86_64-linux-gnu/stdio.h", "/usr/include/stdio.h"),
        ("/usr/lib/x86_64-linux-gnu/perl/x", "/usr/lib/perl/x"),
    ],
)
def test_the_same_name_where_tools_look_later(path, other):
    assert other in covered_by(path)
    assert path not in covered_by(path)


@pytest.mark.parametrize("path", ["/usr/local/share/man/man1/git.1", "/etc/hosts", "/opt/x/include/stdio.h", "/app/x"])
def test_nothing_else(path):
    assert covered_by(path) == ()
