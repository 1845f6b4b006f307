"""What a sandboxed process may not do: capabilities beyond Docker's fourteen, and a list of system calls.

The filter is installed before capabilities are dropped, so that `no_new_privs` is not needed and sudo works inside.
"""

import errno
import os
import struct

from seatrial.sandbox.syscalls import PR_CAPBSET_DROP, SeccompFilter, capset, prctl

# chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write
# setfcap
KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
_LAST_CAPABILITY = 63

# name: (x86_64, aarch64); None where the architecture has no such call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_SOCKET = {"x86_64": 41, "aarch64": 198}
_AF_VSOCK = 40
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NAMESPACE_FLAGS = 0x7E020000

# BPF: load a word, jump if equal / greater-or-equal / any bit set, return
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW = 0x7FFF0000
_X32_BIT = 0x40000000


def _fail(number: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, 0x00050000 | number


def build_filter(machine: str) -> bytes:
    """The seccomp program for an architecture, as packed instructions."""
    column = list(_ARCHITECTURES).index(machine)
    denied = sorted(number for numbers in _DENIED.values() if (number := numbers[column]) is not None)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _fail(errno.EPERM),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        # The x32 table has numbers of its own for the same calls; nobody needs it.
        (_AT_LEAST, 0, 1, _X32_BIT),
        _fail(errno.ENOSYS),
        # clone3 hides its flags behind a pointer that a filter cannot follow; libc falls back to clone.
        (_EQUAL, 0, 1, _CLONE3),
        _fail(errno.ENOSYS),
        (_EQUAL, 0, 4, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_ANY_BIT, 0, 1, _NAMESPACE_FLAGS),
        _fail(errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        # Sockets to the hypervisor belong to no network namespace.
        (_EQUAL, 0, 4, _SOCKET[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_EQUAL, 0, 1, _AF_VSOCK),
        _fail(errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program += [(_EQUAL, len(denied) - index, 0, number) for index, number in enumerate(denied)]
    program += [(_RETURN, 0, 0, _ALLOW), _fail(errno.EPERM)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_FILTER = SeccompFilter(build_filter(os.uname().machine) if os.uname().machine in _ARCHITECTURES else b"")


def deny_system_calls() -> None:
    """Install the filter on this process and all it will start. Needs CAP_SYS_ADMIN, so do it first."""
    _FILTER.install()


def drop_capabilities() -> None:
    """Keep the usual container capabilities, and let nothing started from here get more."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno == errno.EINVAL:  # beyond the last one this kernel knows
                    break
                raise
    capset(sum(1 << capability for capability in KEPT_CAPABILITIES))
