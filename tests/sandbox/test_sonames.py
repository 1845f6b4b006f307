"""Sonames, as the loader reads them, of libraries that anybody may have made."""

import io
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.sandbox.sonames import UNKNOWN, is_searched, read_soname
from tests.programs import needs_program

NAME = b"libreal.so.1"


def library(name: bytes = NAME, *, bits: int = 64, order: str = "<", more: bytes = b"") -> bytes:
    """The least that has a soname: one segment with all of the file, and one with the dynamic entries."""
    header, segment, entry = {64: ("HHIQQQIHHH", "IIQQQQQQ", "qQ"), 32: ("HHIIIIIHHH", "IIIIIIII", "iI")}[bits]
    first = 16 + struct.calcsize(f"<{header}")
    second = first + 2 * struct.calcsize(f"<{segment}")
    dynamic = b"".join(struct.pack(order + entry, *each) for each in ((14, 1), (5, second))) + more
    dynamic += struct.pack(order + entry, 0, 0)
    strings = b"\0" + name + b"\0"
    size = second + len(strings) + len(dynamic)
    where = second + len(strings)
    plain = [(1, 5, 0, 0, 0, size, size, 1), (2, 4, where, where, where, len(dynamic), len(dynamic), 8)]
    small = [
        (kind, offset, address, address, length, length, flags, 1)
        for kind, flags, offset, address, _, length, _, _ in plain
    ]
    ident = b"\x7fELF" + bytes([bits // 32, 2 if order == ">" else 1]) + bytes(10)
    start = struct.pack(order + header, 3, 62, 1, 0, first, 0, 0, first, struct.calcsize(f"<{segment}"), 2)
    segments = b"".join(struct.pack(order + segment, *each) for each in (plain if bits == 64 else small))
    return ident + start + segments + strings + dynamic


def soname(content: bytes) -> str:
    return read_soname(io.BytesIO(content))


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_library_is_known_by_what_is_in_it(bits, order):
    assert soname(library(bits=bits, order=order)) == NAME.decode()


@needs_program("gcc", "gcc")
def test_what_a_compiler_makes_is_read(tmp_path):
    (tmp_path / "x.c").write_text("int x;")
    base = ["gcc", "-shared", "-fPIC", "x.c", "-o"]
    subprocess.run([*base, "named.so", f"-Wl,-soname,{NAME.decode()}"], cwd=tmp_path, check=True)
    subprocess.run([*base, "nameless.so"], cwd=tmp_path, check=True)
    assert soname((tmp_path / "named.so").read_bytes()) == NAME.decode()
    assert soname((tmp_path / "nameless.so").read_bytes()) == ""


def test_all_libraries_of_this_machine_can_be_read():
    found = {path: soname(path.read_bytes()) for path in sorted(Path("/usr/lib").glob("*-linux-*/lib*.so.*"))[:150]}
    assert UNKNOWN not in found.values()


def test_whoever_hides_a_name_from_one_reader_has_no_known_one():
    again = struct.pack("<qQ", 14, 2)
    assert soname(library(more=again)) == UNKNOWN, "the loader may take the second"
    assert soname(library(more=struct.pack("<qQ", 1, 1) * 5000)) == UNKNOWN
    assert soname(library()[:-30]) == UNKNOWN


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"GROUP ( libc.so.6 )", bytes(200)])
def test_what_is_no_library_has_none(content):
    assert soname(content) == ""


@given(st.binary(max_size=300), st.integers(0, 250))
@example(b"\xff" * 60, 4)
def test_any_bytes_are_read_to_an_end(noise, where):
    content = library()
    assert isinstance(soname(content[:where] + noise + content[where + len(noise) :]), str)
    assert isinstance(soname(b"\x7fELF" + noise), str)


@pytest.mark.parametrize(
    ("path", "searched"),
    [
        *(("/usr/lib/x86_64-linux-gnu/libx.so", True), ("/usr/local/lib/any.so.1", True), ("/lib64/x.so.2", True)),
        *(("/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libz.so.1", True), ("/usr/local/lib/x", False)),
        *(("/usr/lib/jvm/java/lib/libz.so", False), ("/app/lib/libz.so", False)),
    ],
)
def test_where_the_loader_looks(path, searched):
    assert is_searched(path) is searched
