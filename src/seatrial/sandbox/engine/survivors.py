"""Which processes of a container are the agent's: all but the first, and but what stands between us and a command.

Where a process stands is no proof of whose it is: an agent that replaces /bin/sh, or takes over a shell of ours, stands
between us and a command too. But what is really ours ends with the command, as soon as nobody writes any more. So while
others are there, as many as our commands have around them pass for ours; where they are all there is, they have to go.

The programs that we bring into every container are here too: its first process, and the one that ends all others.
"""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from seatrial.sandbox.engine.command import AROUND, DEPTH
from seatrial.sandbox.process_names import RESTLESS, shown_name

_LOOKS = 10
_FAREWELL_SEC = 2.0


@dataclass(frozen=True, slots=True)
class Process:
    """One row of an engine's list."""

    pid: int
    parent: int
    state: str
    name: str


@dataclass(frozen=True, slots=True)
class FoundProcesses:
    """Names of processes: those of the agent, and those that stand where ours do."""

    agents: tuple[str, ...] = ()
    between: tuple[str, ...] = ()


class Around(Protocol):
    """A command of ours that has processes around it, until nobody can write its output any more."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        ...

    async def wait_until_closed(self) -> None:
        """Wait until nobody can write any more."""
        ...


class Listing(Protocol):
    """Who can be asked about the processes of a container."""

    async def processes(self) -> FoundProcesses:
        """Who is in the engine's list."""
        ...

    async def has_more_than_its_first_process(self) -> bool:
        """Whether the kernel counts others."""
        ...


def row(columns: Sequence[str]) -> Process:
    """A row of number, parent, state and name, which may be empty or take several columns."""
    pid, parent, state, *name = columns
    return Process(int(pid), int(parent), state, shown_name(" ".join(name)))


def sort_out(rows: Sequence[Process], first: int) -> FoundProcesses:
    """Whoever was started from outside has the same parent as the first process; some generations below are ours."""
    outside = next((each.parent for each in rows if each.pid == first), 0)
    between: set[int] = set()
    generation = {each.pid for each in rows if each.parent == outside and each.pid != first}
    for _ in range(DEPTH + 1):
        between |= generation
        generation = {each.pid for each in rows if each.parent in generation}
    living = [each for each in rows if each.pid != first and _is_alive(each, first)]
    return FoundProcesses(
        tuple(sorted(each.name for each in living if each.pid not in between)),
        tuple(sorted(each.name for each in living if each.pid in between)),
    )


def _is_alive(process: Process, first: int) -> bool:
    """Whether it runs. One whose first thread has ended looks dead, though others of its threads may go on.

    Docker's list marks those with an `l`. Podman's does not; but the first process lets the kernel bury its children at
    once, so none of them is ever seen dead.
    """
    return not process.state.startswith(("Z", "X")) or "l" in process.state or process.parent == first


async def names(container: Listing, commands: Sequence[Around]) -> tuple[str, ...]:
    """What the agent has running, by name. `commands` are those of ours whose output is still open."""
    found = await container.processes()
    if any(command.running for command in commands):
        return _unexplained(found, commands)
    if not found.agents and found.between:
        found = await _see_off(container, commands)
    if found.agents:
        return _unexplained(found, commands)
    if found.between:
        return found.between
    return (RESTLESS,) if await _is_restless(container) else ()


def _unexplained(found: FoundProcesses, commands: Sequence[Around]) -> tuple[str, ...]:
    """The agent's, and those between if our commands do not explain so many."""
    explained = len(found.between) <= AROUND * len(commands)
    return found.agents if explained else tuple(sorted(found.agents + found.between))


async def _see_off(container: Listing, commands: Sequence[Around]) -> FoundProcesses:
    """Let what is ours go; returns who is there then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_SEC):
            for command in commands:
                await command.wait_until_closed()
    found = await container.processes()
    for _ in range(_LOOKS):
        if found.agents or not found.between:
            break
        found = await container.processes()
    return found


async def _is_restless(container: Listing) -> bool:
    """Whether the kernel counts more than the list has, look after look.

    An engine asks who is there first, and about each of them then: who has moved on meanwhile is in no list.
    """
    for _ in range(_LOOKS):
        if not await container.has_more_than_its_first_process():
            return False
    return True


# The two programs that we bring into a container, since nothing in there can be relied on. `init` is its first process:
# it reaps orphans, outlives `kill -9 -1`, and ends when its input does, which is when whoever made the container has
# gone. `killall` ends everything but itself and the first process, and prints one byte when nobody is left. Both are a
# few system calls without a library, so they run in any image, and lie on a mount that nobody inside can write to.

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
