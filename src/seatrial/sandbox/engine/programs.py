"""The two programs that we bring into a container, since nothing in there is ours to rely on.

`init` is its first process: it takes no part in anything, reaps whoever is orphaned, outlives `kill -9 -1`, and ends
when its input does, which is when whoever made the container has gone. `killall` ends everything but itself and the
first process, and says so with one byte when nobody is left. Both are a few system calls of a static program without a
library, so they run in any image, and lie on a mount that nobody inside can write to.
"""

import struct
from collections.abc import Mapping

_ADDRESS = 0x400000
_HEADERS = 64 + 56
_SIGNAL_IGNORED = struct.pack("<4Q", 1, 0, 0, 0)  # the handler, flags, restorer and mask of rt_sigaction
_MILLISECOND = struct.pack("<2Q", 0, 1_000_000)
EVERYBODY_GONE = _MILLISECOND[:1]
"""What `killall` says at its end."""

# Orphans whose new parent ignores SIGCHLD are reaped by the kernel.
_X86_INIT = """
b80d000000      mov  eax, 13         rt_sigaction
bf11000000      mov  edi, 17         of SIGCHLD
488d352a000000  lea  rsi, [rip+42]   the data behind this code
31d2            xor  edx, edx
41ba08000000    mov  r10d, 8
0f05            syscall
31c0            xor  eax, eax        read
31ff            xor  edi, edi        standard input
4889e6          mov  rsi, rsp
ba01000000      mov  edx, 1
0f05            syscall
85c0            test eax, eax
7fee            jg   -18             something came: again
83f8fc          cmp  eax, -4         interrupted: again
74e9            je   -23
b8e7000000      mov  eax, 231        exit_group
31ff            xor  edi, edi
0f05            syscall
"""
_X86_KILLALL = """
b83e000000      mov  eax, 62         kill
bfffffffff      mov  edi, -1         everybody
be09000000      mov  esi, 9
0f05            syscall
85c0            test eax, eax
7812            js   +18             nobody is left
b823000000      mov  eax, 35         nanosleep
488d3d27000000  lea  rdi, [rip+39]   the data behind this code
31f6            xor  esi, esi
0f05            syscall
ebd9            jmp  -39             again
b801000000      mov  eax, 1          write
bf01000000      mov  edi, 1
488d3510000000  lea  rsi, [rip+16]
ba01000000      mov  edx, 1
0f05            syscall
b8e7000000      mov  eax, 231        exit_group
31ff            xor  edi, edi
0f05            syscall
"""
_ARM_INIT = """
c81080d2        mov  x8, 134         rt_sigaction
200280d2        mov  x0, 17          of SIGCHLD
01020010        adr  x1, +64         the data behind this code
020080d2        mov  x2, 0
030180d2        mov  x3, 8
010000d4        svc  0
e80780d2        mov  x8, 63          read
000080d2        mov  x0, 0           standard input
e1030091        mov  x1, sp
220080d2        mov  x2, 1
010000d4        svc  0
1f0000f1        cmp  x0, 0
4cffff54        b.gt -24             something came: again
1f1000b1        cmn  x0, 4           interrupted: again
00ffff54        b.eq -32
c80b80d2        mov  x8, 94          exit_group
000080d2        mov  x0, 0
010000d4        svc  0
"""
_ARM_KILLALL = """
281080d2        mov  x8, 129         kill
00008092        mov  x0, -1          everybody
210180d2        mov  x1, 9
010000d4        svc  0
c000f8b7        tbnz x0, 63, +24     nobody is left
a80c80d2        mov  x8, 101         nanosleep
80010010        adr  x0, +48         the data behind this code
010080d2        mov  x1, 0
010000d4        svc  0
f7ffff17        b    -36             again
080880d2        mov  x8, 64          write
200080d2        mov  x0, 1
c1000010        adr  x1, +24
220080d2        mov  x2, 1
010000d4        svc  0
c80b80d2        mov  x8, 94          exit_group
000080d2        mov  x0, 0
010000d4        svc  0
"""
_CODES = {
    "x86_64": (62, _X86_INIT, _X86_KILLALL),
    "aarch64": (183, _ARM_INIT, _ARM_KILLALL),
}
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def programs(machine: str) -> Mapping[str, bytes] | None:
    """The executables by name for a kind of processor, however it is called; None for a kind they do not exist for."""
    found = _CODES.get(_SAME.get(machine, machine))
    if found is None:
        return None
    number, init, killall = found
    return {
        "init": _executable(number, init, _SIGNAL_IGNORED),
        "killall": _executable(number, killall, _MILLISECOND),
    }


def _executable(machine: int, listing: str, data: bytes) -> bytes:
    """An ELF file of one segment, read and executed, with the data right behind the code."""
    code = b"".join(bytes.fromhex(line.split()[0]) for line in listing.split("\n") if line) + data
    size = _HEADERS + len(code)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<2HI3QI6H", 2, machine, 1, _ADDRESS + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<2I6Q", 1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x10000)
    return ident + header + segment + code
