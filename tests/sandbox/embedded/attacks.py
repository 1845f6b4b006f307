"""What a hostile root inside a sandbox tries, and how the kernel must refuse it, as a table.

Each attack is Python code for the interpreter of the host image. It has `libc`, `call(name, …)` for a system call by
its number, and `read(path)`, `write(path, text)`. All are harmless should they work: they read, or change nothing.
"""

import errno
from dataclasses import dataclass, field

PRELUDE = """
import ctypes, errno, os, platform, signal, socket, stat, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
# x86_64, aarch64
NUMBERS = {
    "add_key": (248, 217), "bpf": (321, 280), "clone": (56, 220), "clone3": (435, 435), "delete_module": (176, 106),
    "finit_module": (313, 273), "fsopen": (430, 430), "io_uring_setup": (425, 425), "kexec_load": (246, 104),
    "keyctl": (250, 219), "mount_setattr": (442, 442), "move_mount": (429, 429), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "request_key": (249, 218),
    "userfaultfd": (323, 282),
}
def check(result, what=""):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result
def call(name, *arguments):
    number = NUMBERS[name][platform.machine() == "aarch64"]
    return check(libc.syscall(ctypes.c_long(number), *arguments), name)
def read(path):
    with open(path, "rb") as file:
        return file.read(1)
def write(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text.encode())
try:
    exec(sys.argv[1])
except OSError as error:
    print(errno.errorcode[error.errno])
else:
    print("it worked")
"""

# Three that stop every other process as it appears: those of the next commands, and whoever comes to kill.
STOPPER = """
import os, signal
reader, writer = os.pipe()
if os.fork() and os.fork():
    os.close(writer)
else:
    os.close(writer)
    os.setsid()
    os.read(reader, 1)
own = {int(name) for name in os.listdir("/proc") if name.isdigit()}
while True:
    for pid in range(2, max(own) + 60):
        if pid not in own:
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                pass
"""

NO_PERMISSION = frozenset({"EPERM", "EACCES"})
NOT_THERE = frozenset({"ENOENT"})
READ_ONLY = NO_PERMISSION | {"EROFS"}


@dataclass(frozen=True, slots=True)
class Attack:
    """Code, and the names of the errors that count as a refusal."""

    name: str
    code: str
    refused: frozenset[str] = field(default=frozenset({"EPERM"}))


MOUNTS = [
    Attack("mount a tmpfs", "check(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None))"),
    Attack("bind the root elsewhere", "check(libc.mount(b'/', b'/mnt', None, ctypes.c_ulong(0x1000), None))"),
    Attack("make /proc/sys writable", "check(libc.mount(None, b'/proc/sys', None, ctypes.c_ulong(0x1020), None))"),
    Attack("make /dev writable", "check(libc.mount(None, b'/dev', None, ctypes.c_ulong(0x1020), None))"),
    Attack("mount a control group", "check(libc.mount(b'cgroup', b'/mnt', b'cgroup', 0, b'memory'))"),
    Attack("mount the second kind of control group", "check(libc.mount(b'none', b'/mnt', b'cgroup2', 0, None))"),
    Attack("uncover the other /proc", "check(libc.umount2(b'/proc', 2))"),
    Attack("pivot_root", "call('pivot_root', b'/mnt', b'/mnt')"),
    Attack("fsopen", "call('fsopen', b'tmpfs', 0)"),
    Attack("open_tree", "call('open_tree', -100, b'/', 1)"),
    Attack("move_mount", "call('move_mount', -100, b'/dev', -100, b'/mnt', 0)"),
    Attack("mount_setattr", "call('mount_setattr', -100, b'/dev', 0, bytes(32), 32)"),
]

NAMESPACES = [
    *(
        Attack(f"unshare a {name} namespace", f"check(libc.unshare({flag:#x}))")
        for name, flag in {
            "user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "network": 0x40000000, "control group": 0x02000000
        }.items()
    ),
    Attack("clone into a user namespace", "call('clone', 0x10000011, None, None, None, None) or os._exit(0)"),
    Attack("clone3", "call('clone3', bytes(88), 88) or os._exit(0)", frozenset({"ENOSYS"})),
    Attack("setns to one's own namespace", "check(libc.setns(os.open('/proc/self/ns/mnt', os.O_RDONLY), 0))"),
    Attack("setns to that of the first process", "os.open('/proc/1/ns/mnt', os.O_RDONLY)", NO_PERMISSION),
    Attack("setns by a pidfd", "check(libc.setns(os.pidfd_open(1), 0x20000))"),
]  # fmt: skip

KERNEL = [
    Attack("add_key", "call('add_key', b'user', b'name', b'value', 5, -3)"),
    Attack("request_key", "call('request_key', b'user', b'name', None, -3)"),
    Attack("keyctl", "call('keyctl', 0, -3, 0)"),
    Attack("bpf", "call('bpf', 0, bytes(128), 128)"),
    Attack("perf_event_open", "call('perf_event_open', struct.pack('=2IQ', 1, 112, 0) + bytes(96), 0, -1, -1, 0)"),
    Attack("userfaultfd", "call('userfaultfd', 1)"),
    Attack("io_uring", "call('io_uring_setup', 1, bytes(120))", frozenset({"EPERM", "ENOSYS"})),
    Attack("kexec_load", "call('kexec_load', 0, 0, None, 0)"),
    Attack("init_module", "check(libc.init_module(b'', 0, b''))"),
    Attack("finit_module", "call('finit_module', os.open('/dev/null', os.O_RDONLY), b'', 0)"),
    Attack("delete_module", "call('delete_module', b'no_such_module', 0)"),
    Attack("reboot", "check(libc.reboot(0))"),  # 0: no more reaction to Ctrl-Alt-Del
    Attack("set the clock", "time.clock_settime(time.CLOCK_REALTIME, time.time())"),
    Attack("settimeofday", "check(libc.settimeofday(None, struct.pack('=2i', 0, 0)))"),
    Attack("swapon", "check(libc.swapon(b'/no/such/file', 0))"),
    Attack("acct", "check(libc.acct(b'/no/such/file'))"),
    Attack("quotactl", "check(libc.quotactl(0x80000100, None, 0, None))"),
    Attack("read the kernel's log", "check(libc.klogctl(3, ctypes.create_string_buffer(64), 64))"),
    Attack("rename the machine", "check(libc.sethostname(b'other', 5))"),
    Attack("real-time priority", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"),
    Attack("more processor than others", "os.setpriority(os.PRIO_PROCESS, 0, -5)", NO_PERMISSION),
    Attack("talk to the hypervisor", "socket.socket(40, socket.SOCK_STREAM)", frozenset({"EPERM", "EAFNOSUPPORT"})),
]

VECTOR = "room = bytes(8); vector = struct.pack('=2Q', ctypes.cast(room, ctypes.c_void_p).value, 8); "
FIRST_PROCESS = [
    *(
        Attack(f"read /proc/1/{name}", f"read('/proc/1/{name}')", NO_PERMISSION)
        for name in ("environ", "mem", "maps", "root/etc/passwd", "cwd/etc/passwd", "exe", "auxv", "stack", "io")
    ),
    *(
        Attack(f"list /proc/1/{name}", f"os.listdir('/proc/1/{name}')", NO_PERMISSION)
        for name in ("root", "cwd", "map_files")
    ),
    Attack("reopen a file of it", "os.open('/proc/1/fd/0', os.O_RDONLY)", NO_PERMISSION),
    Attack("see what it has open", "os.readlink('/proc/1/fd/0')", NO_PERMISSION),
    Attack("attach to it", "check(libc.ptrace(ctypes.c_long(16), 1, None, None))"),
    Attack("seize it", "check(libc.ptrace(ctypes.c_long(0x4206), 1, None, None))"),
    Attack("take a descriptor of it", "call('pidfd_getfd', os.pidfd_open(1), 0, 0)"),
    Attack("read its memory", VECTOR + "check(libc.process_vm_readv(1, vector, 1, vector, 1, 0))"),
]

HANDLE = "handle = ctypes.create_string_buffer(struct.pack('=Ii', 8, 1) + struct.pack('=Ii', 2, 0), 16); "
FILES = [
    # The "shocker": a file handle of inode 2, the root directory of most file systems.
    Attack("open_by_handle_at", HANDLE + "check(libc.open_by_handle_at(os.open('/', os.O_RDONLY), handle, 0))"),
    Attack("name_to_handle_at", HANDLE + "check(libc.name_to_handle_at(-100, b'/etc', handle, bytes(4), 0))"),
    Attack("a new device in /dev", "os.mknod('/dev/disk', stat.S_IFBLK | 0o600, DISK)", READ_ONLY),
    Attack("a new file in /dev", "open('/dev/file', 'w')", READ_ONLY),
    Attack("access to /dev/null for nobody", "os.chmod('/dev/null', 0)", READ_ONLY),
    *(
        Attack(f"a disk in {folder}", f"os.mknod('{folder}/disk', stat.S_IFBLK | 0o600, DISK); read('{folder}/disk')",
               READ_ONLY)
        for folder in ("/app", "/tmp", "/dev/shm", "/usr", "/etc")
    ),
    *(
        Attack(f"write {path}", f"write('{path}', '{value}')", READ_ONLY | NOT_THERE)
        for path, value in {
            "/proc/sys/kernel/core_pattern": "core", "/proc/sys/kernel/hostname": "other", "/proc/sysrq-trigger": "h",
            "/proc/sys/vm/drop_caches": "1", "/proc/sys/kernel/modprobe": "/sbin/modprobe",
            "/proc/irq/default_smp_affinity": "3", "/proc/sys/net/ipv4/ip_forward": "0", "/dev/kmsg": "x",
            "/sys/kernel/uevent_helper": "x", "/sys/power/state": "x", "/sys/class/net/lo/mtu": "65536",
        }.items()
    ),
    Attack("a new control group", "os.mkdir('/sys/fs/cgroup/mine')", READ_ONLY | NOT_THERE),
    Attack("the end of a group as a trigger", "write('/sys/fs/cgroup/release_agent', '/x')", READ_ONLY | NOT_THERE),
    *(
        Attack(f"open /dev/{name}", f"read('/dev/{name}')", NO_PERMISSION | NOT_THERE)
        for name in ("mem", "kmsg", "vda", "sda", "loop0", "loop-control", "kvm", "fuse", "net/tun", "vsock")
    ),
    *(
        Attack(f"read {path}", f"read('{path}') or read('/no/such/file')", NO_PERMISSION | NOT_THERE | {"EIO"})
        for path in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/kpagecount")
    ),
]  # fmt: skip

ALL = {
    f"{title}: {attack.name}": attack
    for title, attacks in {
        "mounts": MOUNTS, "namespaces": NAMESPACES, "kernel": KERNEL, "first process": FIRST_PROCESS, "files": FILES
    }.items()
    for attack in attacks
}  # fmt: skip
assert all(name in errno.errorcode.values() for attack in ALL.values() for name in attack.refused)
