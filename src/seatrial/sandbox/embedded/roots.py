"""The root of a sandbox: which overlays it is made of, how they are mounted, and what every root has besides.

An image of layers is one overlay, the `host` image several: one for each folder of the system. What all sandboxes of a
spawner share is prepared once. The rest runs in forked children of the spawner, in the order the kernel demands;
`inits.py` calls it.
"""

import os
import shutil
import stat
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from seatrial.sandbox.embedded.protocol import Box
from seatrial.sandbox.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REMOUNT,
    bind,
    bind_shifted,
    mount,
    restrict,
)
from seatrial.untrusted.files import READ

# The machine's own system, without homes, logs, services' data and everything else that is somebody's.
SYSTEM_FOLDERS = ("usr", "etc", "opt", "var/lib/dpkg")
# All of them but /usr, which is large and holds programs.
_MASKED_FOLDERS = SYSTEM_FOLDERS[1:]
_EMPTY_FOLDERS = (
    *("root", "home", "run", "mnt", "srv", "var/log", "var/lib", "var/cache", "proc", "sys", "dev"),
    "var/lib/apt/lists/partial",  # lists of packages have to be fetched first, as in most images
)
# A few files are copied: overlays for their folders would cost every sandbox more than that costs once.
_COPIED = ("var/lib/apt/extended_states", "var/cache/debconf/config.dat", "var/cache/debconf/templates.dat")
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Beside the overlays: where the verifier's temporary files go, by views.
TEMPORARY = "temporary"
# What the kernel makes for an overlay, one inside of the other; the last is a file, and older kernels make none.
_KERNEL_OWN = ("work", "incompat", "volatile", "dirty")


class Tree(NamedTuple):
    """One overlay of a root; `lowers` has the topmost first."""

    folder: str
    lowers: tuple[str, ...]

    @property
    def name(self) -> str:
        """A name for its directories that has no slash in it."""
        return self.folder.replace("/", "_") or "root"


def plan_trees(base: str, layers: Sequence[str], prepared: str) -> list[Tree]:
    """The overlays of an image, outermost first.

    `prepared` holds the skeleton and the masks of the host image, and the basics that fill the gaps of any other.
    """
    top_first = list(reversed(layers))
    if base != "host":
        return [Tree("", (*top_first, f"{prepared}/basics"))]
    trees = [Tree("", (*top_first, f"{prepared}/host/skeleton"))]
    for folder in SYSTEM_FOLDERS:
        if os.path.isdir(f"/{folder}"):
            above = [f"{layer}/{folder}" for layer in top_first if os.path.isdir(f"{layer}/{folder}")]
            mask = f"{prepared}/host/mask/{folder}"
            masked = folder in _MASKED_FOLDERS or os.path.isdir(mask)
            trees.append(Tree(folder, (*above, *([mask] if masked else []), f"/{folder}")))
    return trees


def usual_remains(trees: Sequence[Tree]) -> list[str]:
    """What every overlay leaves behind in its sandbox's folder, what is inside of something else first."""
    depths = range(len(_KERNEL_OWN), -1, -1)
    own = [["aside", tree.name, *_KERNEL_OWN[:depth]] for tree in trees for depth in depths]
    uppers = [f"upper/{tree.name}" for tree in trees]
    return ["/".join(parts) for parts in own] + [*uppers, f"{TEMPORARY}/0", TEMPORARY]


class SpawnerSettings(NamedTuple):
    """What is the same for all sandboxes of a spawner."""

    shift: int | None
    """A user namespace to move owners into."""
    owner: int
    """The id that is root in it."""
    rootless: bool
    prepared: str
    """The folder of what all sandboxes share."""
    shifted: dict[str, str]
    """Directories that lie there with their owners moved."""
    open_files: tuple[int, int]
    """How many files a command may have open: the soft limit and the hard one."""

    @property
    def shifts(self) -> bool:
        """Whether root inside is nobody outside."""
        return self.rootless or self.owner != 0

    @property
    def mounts(self) -> str:
        """The folder of all mount points, the same for every sandbox: each sees its own mounts only."""
        return f"{self.prepared}/mounts"


def mount_trees(trees: Sequence[Tree], state: str, manner: SpawnerSettings, frozen: str | None = None) -> str:
    """Mount all overlays, writable; returns the root.

    A folder with a `frozen` copy of earlier writes, owners and all, lies above the image.
    """
    if manner.rootless:
        return _mount_trees_as_user(trees, state, manner.mounts, frozen)
    mounts, owner = manner.mounts, manner.owner
    root = f"{mounts}/root"
    os.chdir(mounts)  # short names: mount(2) takes 4 KiB of options, and an image may have a hundred layers
    for tree in trees:
        upper, work = _writable(state, tree)
        above, moved = ([f"{frozen}/upper/{tree.name}"], 0) if frozen else ([], owner)
        template = os.stat([*above, *tree.lowers][0])
        os.chmod(upper, stat.S_IMODE(template.st_mode))
        os.chown(upper, template.st_uid + moved, template.st_gid + moved)
        lowers = bind_lowers(tree.lowers, f"lower/{tree.name}", manner.shift, manner.shifted)
        mount_overlay([*above, *lowers], upper, work, f"{root}/{tree.folder}".rstrip("/"), rootless=False)
    return root


def _mount_trees_as_user(trees: Sequence[Tree], state: str, mounts: str, frozen: str | None) -> str:
    """In a user namespace. A system folder that cannot take writes there is shown read-only."""
    root = f"{mounts}/root"
    os.chdir(mounts)
    for tree in trees:
        target = f"{root}/{tree.folder}".rstrip("/")
        try:
            _mount_tree_as_user(tree, state, target, frozen)
        except OSError as error:
            # Such as one in which something is mounted: the kernel lays no overlay over what it must not uncover.
            _refuse_layers(tree, error)
            for part in ("upper", "aside"):
                os.rmdir(f"{state}/{part}/{tree.name}")
            bind(f"/{tree.folder}", target, recursive=True)
            restrict(target, MS_RDONLY | MS_NOSUID)
    return root


def _refuse_layers(tree: Tree, error: OSError) -> None:
    """Raise the error if a folder can be had only without what layers of the image add to it."""
    own = f"/{tree.folder}"
    if not tree.folder or any(lower != own and not lower.endswith(f"/host/mask{own}") for lower in tree.lowers):
        raise OSError(
            error.errno,
            f"layers cannot be laid over {own} ({error.strerror}): perhaps something is mounted below it, which an "
            "ordinary user cannot leave out",
        ) from None


def _mount_tree_as_user(tree: Tree, state: str, target: str, frozen: str | None) -> None:
    upper, work = _writable(state, tree)
    above = f"{frozen}/upper/{tree.name}"
    copied = [above] if frozen and os.path.isdir(above) else []
    lowers = bind_lowers(tree.lowers, f"lower/{tree.name}", None, {})
    if tree.folder:
        os.chmod(upper, stat.S_IMODE(os.stat([*copied, *lowers][0]).st_mode))
    mount_overlay([*copied, *lowers], upper, work, target, rootless=True)


def _writable(state: str, tree: Tree) -> tuple[str, str]:
    """New directories for what is written to an overlay, and for the kernel's own work on it."""
    places = []
    for part in ("upper", "aside"):
        if not tree.folder:  # the root comes first
            os.makedirs(f"{state}/{part}", exist_ok=True)
        places.append(f"{state}/{part}/{tree.name}")
        os.mkdir(places[-1])
    return places[0], places[1]


def prepare_furniture(prepared: str) -> None:
    """Make the layer that lies below all others of an image and so fills its gaps, once for all sandboxes.

    So is the directory that all of them mount their root on.
    """
    make_basics(f"{prepared}/basics")
    os.makedirs(f"{prepared}/mounts/root")


def prepare_host_image(prepared: str, *, rootless: bool = False) -> None:
    """Make the skeleton of the host image and the masks that hide what an ordinary user may not read.

    Where that user is whose sandboxes they are, the masks also hold what can be written to. The folder appears complete
    or not at all, and making it a second time changes nothing.
    """
    folder = f"{prepared}/host"
    if os.path.isdir(folder):
        return
    part = f"{folder}.{os.getpid()}"
    if rootless:
        os.mkdir(part)
        mount("tmpfs", part, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")  # so many folders: faster made, gone by itself
    _make_skeleton(f"{part}/skeleton")
    for name in _MASKED_FOLDERS:
        if os.path.isdir(f"/{name}"):
            _mask(name, f"{part}/mask/{name}")
    name_machine(f"{part}/mask")
    lock_passwords(f"{part}/mask")
    if rootless:
        make_own_system(f"{part}/mask")
        os.symlink(part, folder)
    else:
        os.rename(part, folder)


def shift_host_image(prepared: str, shift: int) -> dict[str, str]:
    """Mount the directories of the host image with their owners shifted, once for all sandboxes; returns which where.

    By names that are short, and relative to where overlays are mounted.
    """
    lowers = [lower for tree in plan_trees("host", (), prepared) for lower in tree.lowers]
    for index, lower in enumerate(lowers):
        os.makedirs(f"{prepared}/shifted/{index}")
        bind_shifted(lower, f"{prepared}/shifted/{index}", shift)
    return {lower: f"../shifted/{index}" for index, lower in enumerate(lowers)}


def _make_skeleton(skeleton: str) -> None:
    make_basics(skeleton)
    for name in (*_EMPTY_FOLDERS, *SYSTEM_FOLDERS):
        os.makedirs(f"{skeleton}/{name}", exist_ok=True)
    for name in ("tmp", "var/tmp"):
        os.makedirs(f"{skeleton}/{name}", exist_ok=True)
        os.chmod(f"{skeleton}/{name}", 0o1777)
    os.chmod(f"{skeleton}/root", 0o700)
    for name in _LINKS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{skeleton}/{name}")
    for name in _COPIED:
        if _mode(f"/{name}") & 0o004:
            os.makedirs(os.path.dirname(f"{skeleton}/{name}"), exist_ok=True)
            shutil.copy(f"/{name}", f"{skeleton}/{name}")


def _mask(folder: str, target: str) -> None:
    """A layer of whiteouts, each hiding one private file or directory."""
    os.makedirs(target)
    if os.geteuid() != 0:
        return  # what the user cannot read needs no hiding, and whiteouts need root
    os.chmod(target, stat.S_IMODE(os.stat(f"/{folder}").st_mode))
    for relative in _private_entries(f"/{folder}"):
        path = f"{target}/{relative}"
        _copy_folders(f"/{folder}", target, os.path.dirname(relative))
        os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def _copy_folders(source: str, target: str, relative: str) -> None:
    """Make the folders down to `relative` with the mode they have in `source`: the topmost layer decides it."""
    path = ""
    for part in filter(None, relative.split("/")):
        path = f"{path}/{part}"
        if not os.path.isdir(target + path):
            os.mkdir(target + path)
            os.chmod(target + path, stat.S_IMODE(os.stat(source + path).st_mode))


def _private_entries(top: str) -> Iterator[str]:
    pending = [""]
    while pending:
        below = pending.pop()
        for name in _names_without_links(f"{top}/{below}"):
            mode = _mode(f"{top}/{below}{name}")
            if stat.S_ISDIR(mode) and mode & 0o001:
                pending.append(f"{below}{name}/")
            elif stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and not mode & 0o004):
                yield below + name


def _names_without_links(folder: str) -> list[str]:
    """What a folder holds; nothing where it cannot be read. Links are known without looking at them one by one."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in entries if not entry.is_symlink()]
    return []


def _mode(path: str) -> int:
    """The type and permissions of an entry, 0 when it is gone since its directory was read."""
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0


# Mounts: overlays, /proc, /dev, /sys

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_DEV_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_MASKED_PROC = ("kcore", "keys", "key-users", "timer_list", "sched_debug", "kpagecount", "kpageflags", "acpi", "scsi")
_FEW_LAYERS = 8
_QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC


def mount_overlay(lowers: Sequence[str], upper: str, work: str, target: str, *, rootless: bool) -> None:
    """Lay directories over each other, the first one on top, with `upper` taking the writes.

    As root, `volatile` makes fsync inside free: a sandbox is not expected to survive a power cut. What is written must
    be whole files where they are seen, whatever this kernel's habits: they are looked at, copied and stored from there.
    """
    manner = "userxattr" if rootless else "volatile,redirect_dir=off,metacopy=off"
    options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work},{manner}"
    mount("overlay", target, "overlay", MS_NODEV, options)


def bind_lowers(
    lowers: Sequence[str], folder: str, user_namespace: int | None, shifted: Mapping[str, str]
) -> list[str]:
    """Give the lower directories short names below `folder`, their owners shifted into a user namespace if given.

    Those in `shifted` have been given one already.
    """
    if user_namespace is None and len(lowers) <= _FEW_LAYERS:
        return list(lowers)
    names = []
    for index, lower in enumerate(lowers):
        if lower in shifted:
            names.append(shifted[lower])
            continue
        target = f"{folder}/{index}"
        os.makedirs(target, exist_ok=True)
        if user_namespace is None:
            bind(lower, target)
        else:
            bind_shifted(lower, target, user_namespace)
        names.append(target)
    return names


def mount_proc(target: str, *, shifted: bool, rootless: bool) -> None:
    """A fresh /proc for the current pid namespace, with the host's knobs read-only and its secrets masked.

    They belong to the host's root. In a user namespace, where ids are `shifted`, nobody can become that: the kernel
    refuses by itself, and every mount that is not needed makes each sandbox faster to make and to remove. In that of an
    ordinary user, root is this user, and sees the user's own keys.
    """
    mount("proc", target, "proc", _QUIET)
    if shifted and rootless and os.path.exists(f"{target}/keys"):
        bind("/dev/null", f"{target}/keys")
    if shifted:
        return
    for name in _READ_ONLY_PROC:
        path = f"{target}/{name}"
        if os.path.exists(path):
            bind(path, path)
            restrict(path, MS_RDONLY | _QUIET)
    for name in _MASKED_PROC:
        path = f"{target}/{name}"
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", MS_RDONLY | _QUIET, "size=0")
        elif os.path.exists(path):
            bind("/dev/null", path)


def mount_dev(target: str, *, rootless: bool, owner: int) -> None:
    """A fresh /dev with the usual six devices. As root they are made, never bound: a bound one shares its owner.

    `owner` is the user that is root inside. Terminals get the group `tty` of the inside.
    """
    mount("tmpfs", target, "tmpfs", MS_NOSUID, f"mode=755,size=64k,nr_inodes=64,uid={owner},gid={owner}")
    for name, (major, minor) in _DEVICES.items():
        path = f"{target}/{name}"
        if rootless:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
            bind(f"/dev/{name}", path)
        else:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            os.chmod(path, 0o666)
            os.chown(path, owner, owner)
    for name, destination in _DEV_LINKS.items():
        os.symlink(destination, f"{target}/{name}")
    os.mkdir(f"{target}/pts")
    os.mkdir(f"{target}/shm")
    mount_pts(f"{target}/pts", rootless=rootless, owner=owner)
    mount_shm(f"{target}/shm")
    # Device files keep working on a read-only directory; that nobody can add one is the point.
    mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC)


def mount_pts(target: str, *, rootless: bool, owner: int) -> None:
    """Terminals of one's own: whoever shares them can type into them."""
    group = "" if rootless else f",gid={owner + 5}"
    mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, f"newinstance,ptmxmode=0666,mode=0620{group}")


def mount_shm(target: str) -> None:
    mount("tmpfs", target, "tmpfs", _QUIET, "mode=1777,size=64m")


def mount_sys(target: str) -> None:
    """/sys read-only, and nothing of it where the kernel does not allow even that."""
    try:
        mount("sysfs", target, "sysfs", _QUIET | MS_RDONLY)
    except OSError:
        mount("tmpfs", target, "tmpfs", _QUIET | MS_RDONLY, "size=0")


def furnish(root: str, *, rootless: bool, shifted: bool, owner: int) -> None:
    """Add what every root needs and images leave empty. `owner` is the user that is root inside."""
    for name in ("proc", "sys", "dev"):
        if not os.path.isdir(f"{root}/{name}"):
            os.makedirs(f"{root}/{name}", exist_ok=True)
    mount_dev(f"{root}/dev", rootless=rootless, owner=owner)
    mount_proc(f"{root}/proc", shifted=shifted, rootless=rootless)
    mount_sys(f"{root}/sys")


# The host's system for an ordinary user. In a user namespace, what belongs to the host's root belongs to nobody, and
# nobody's folder takes no new files. A layer with the same folders, owned by the user, makes them writable: overlay
# takes owner and mode from the topmost one. Settings are copied; other files can be replaced, but not be written to.

_MOST_FOLDERS = 4000  # each has to be made for every run
_LARGEST_SETTING = 2**20


class _Part(NamedTuple):
    """How much of a folder becomes the user's own: so many levels, with its files or without."""

    depth: int
    files: bool = False


_PARTS = {
    "usr/local": _Part(100),
    "usr/lib/python3": _Part(1),
    "usr": _Part(2),
    "opt": _Part(100),
    "etc": _Part(100, files=True),
}


def make_own_system(layers: str) -> None:
    """Make below `layers` the folders of the system that are to be the user's own; what is there already stays."""
    for folder, part in _PARTS.items():
        if os.path.isdir(f"/{folder}"):
            os.makedirs(f"{layers}/{folder}", exist_ok=True)
            _own(f"/{folder}", f"{layers}/{folder}", part)


def _own(source: str, target: str, part: _Part) -> None:
    """Level by level: of a folder with too much in it, what lies deepest is left out."""
    waiting = deque([(source, target, 0)])
    made = 0
    while waiting and made < _MOST_FOLDERS:
        folder, own, depth = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            os.chmod(own, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and depth < part.depth:
                    if _made(entry.path, f"{own}/{entry.name}"):
                        made += 1
                        waiting.append((entry.path, f"{own}/{entry.name}", depth + 1))
                elif part.files and entry.is_file(follow_symlinks=False):
                    _copy(entry, f"{own}/{entry.name}")


def _made(folder: str, own: str) -> bool:
    """Whether there is a folder of the user's own now. One that the user may not read would make it unreadable."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    with suppress(FileExistsError):
        os.mkdir(own)
    return stat.S_ISDIR(os.lstat(own).st_mode)  # it may be hidden by a mask


def _copy(entry: os.DirEntry[str], own: str) -> None:
    readable = entry.stat(follow_symlinks=False).st_size <= _LARGEST_SETTING and os.access(entry.path, os.R_OK)
    if readable and not os.path.lexists(own):
        shutil.copy2(entry.path, own, follow_symlinks=False)


# Folders a trial needs, and files that name the machine. Most lie ready in a shared layer, and each sandbox corrects
# what its image has otherwise: every entry made there costs time to make, and more to remove.

_FOLDERS = ("/logs/agent", "/logs/artifacts", "/logs/verifier")
_MOUNT_POINTS = ("/proc", "/sys", "/dev")
_USUAL_HOSTNAME = "sandbox"


def make_basics(layer: str) -> None:
    for folder in (*_MOUNT_POINTS, "/etc", *_FOLDERS):
        os.makedirs(layer + folder, exist_ok=True)
    for folder in _FOLDERS:
        os.chmod(layer + folder, 0o777)
    name_machine(layer)


def name_machine(layer: str) -> None:
    """Put the files that name the machine into a layer, as most sandboxes have them, in place of what is there."""
    for path, text in _names(_USUAL_HOSTNAME, read_text("/etc/resolv.conf")).items():
        _put_in_place(layer + path, text)


def lock_passwords(layer: str) -> None:
    """Put a table into a layer in which each user of the host has a password that cannot be given.

    Without one, `su` lets not even root become somebody else.
    """
    names = [line.partition(":")[0] for line in read_text("/etc/passwd").splitlines()]
    _put_in_place(f"{layer}/etc/shadow", "".join(f"{name}:*:1:0:99999:7:::\n" for name in names if name))
    os.chmod(f"{layer}/etc/shadow", 0o600)


def _put_in_place(path: str, text: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # it may stand for a file of the host that is masked
    write_text(path, text, os.O_CREAT | os.O_EXCL)


def _names(hostname: str, name_servers: str) -> dict[str, str]:
    return {
        "/etc/hostname": f"{hostname}\n",
        "/etc/resolv.conf": name_servers,  # for commands on the host's network
        "/etc/hosts": f"127.0.0.1 localhost {hostname}\n::1 localhost\n",
    }


def settle_in(box: Box, owner: int, name_servers: str) -> None:
    """Make folders and files that are missing, owned by `owner`, who is root inside. The root has been entered."""
    for folder in (box.workdir, "/etc", *_FOLDERS):
        _make_folder(folder, owner)
    for folder in _FOLDERS:
        if stat.S_IMODE(os.stat(folder).st_mode) != 0o777:
            os.chmod(folder, 0o777)
    for path, text in _names(box.hostname, name_servers).items():
        if not _is_file_with(path, text):
            _write_anew(path, text, owner)


def _is_file_with(path: str, text: str) -> bool:
    try:
        descriptor = os.open(path, READ)
    except OSError:
        return False
    try:
        expected = text.encode()
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(expected) + 1) == expected
    finally:
        os.close(descriptor)


def _make_folder(path: str, owner: int) -> None:
    current = ""
    for part in filter(None, path.split("/")):
        current = f"{current}/{part}"
        if not os.path.isdir(current):
            os.mkdir(current, 0o755)
            os.chown(current, owner, owner)


def _write_anew(path: str, text: str, owner: int) -> None:
    """Replace a file of the image, or the link in its place; a root that takes no writes keeps what it has."""
    try:
        if os.path.lexists(path):
            os.unlink(path)
        write_text(path, text, os.O_CREAT | os.O_EXCL)
        os.chown(path, owner, owner)
    except OSError:
        return


def read_text(path: str) -> str:
    """A small file, empty when it cannot be read. Not by `open`, whose machinery costs more in a fresh child."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 65536).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def write_text(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
