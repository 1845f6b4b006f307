"""The verifier's view of the files: the sandbox's folders, on a root of its own that no path of the agent leads to.

With a frozen system, what the agent's processes do to the system meanwhile is not in it; everything else is shared.
"""

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from seatrial.errors import SandboxError
from seatrial.sandbox.archives import closing, pack, unpack
from seatrial.sandbox.division import VERIFIER_TMP, Division
from seatrial.sandbox.embedded.roots import mount_overlay, mount_pts, mount_shm, mount_sys
from seatrial.sandbox.syscalls import MS_NODEV, MS_NOSUID, attach_mounts, bind, bind_opened, mount, pivot_root, unmount

_SCRATCH = "/sys"  # any directory every root has
_OWN = ("tests", "logs", "sys", VERIFIER_TMP.strip("/"))
_BROUGHT = "solution"
_BROUGHT_BYTES = 16 * 2**20
_SIZE_MB = 1024
_MAX_SHOWN = 1000
_BOUND = (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
_SHARED_KINDS = {stat.S_IFDIR, stat.S_IFIFO, stat.S_IFSOCK}
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Frozen(NamedTuple):
    """A frozen system: a descriptor of its mounts, how the root is divided, and the paths in it that are shared."""

    mounts: int
    division: Division
    shared: list[str]


class View(NamedTuple):
    """What to show to a verifier."""

    known: list[str]
    """Names of the root that come first."""
    workdir: str
    temporary: int | None
    """A descriptor of the folder for the verifier's temporary files, mounted nowhere yet; None has them in memory."""
    owner: int
    rootless: bool
    frozen: Frozen | None
    hidden: Sequence[str] = ()
    rewritten: Mapping[str, str] = {}
    """New texts of shared files."""


def enter_verifier_view(view: View) -> int:
    """Give this mount namespace a root of its own: the sandbox's directories, and private folders of the verifier.

    The new root is a tmpfs the agent has no way to reach. Were those directories mounted onto the agent's root
    instead, a process of the agent could rename the mount points away and put its own in their place.
    Returns how many entries are not in it, because there were too many.
    """
    owner = view.owner
    mount("tmpfs", _SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={_SIZE_MB}m,uid={owner},gid={owner}")
    os.mkdir(f"{_SCRATCH}/sys")
    own = (*_OWN, _BROUGHT) if _copy_brought(view) else _OWN
    if view.frozen is None:
        left_out = _show(set(os.listdir("/")).difference(own), "", _SCRATCH, view.known)
    else:
        left_out = _show_with_frozen(view, view.frozen, own)
    _hide({**dict.fromkeys(view.hidden), **view.rewritten}, rootless=view.rootless)
    mount_sys(f"{_SCRATCH}/sys")  # anew, because the old one lies under the scratch mount
    for folder, mode in (("tests", 0o755), ("logs", 0o755), ("logs/verifier", 0o777)):
        os.mkdir(f"{_SCRATCH}/{folder}")
        os.chmod(f"{_SCRATCH}/{folder}", mode)
        os.chown(f"{_SCRATCH}/{folder}", owner, owner)
    os.mkdir(f"{_SCRATCH}{VERIFIER_TMP}")
    os.chmod(f"{_SCRATCH}{VERIFIER_TMP}", 0o1777)
    if view.temporary is not None:
        attach_mounts(view.temporary, f"{_SCRATCH}{VERIFIER_TMP}")
    if os.path.isdir("/logs") and not os.path.islink("/logs"):
        left_out += _show(set(os.listdir("/logs")) - {"verifier"}, "/logs", f"{_SCRATCH}/logs", ("agent", "artifacts"))
    mount_pts(f"{_SCRATCH}/dev/pts", rootless=view.rootless, owner=owner)
    mount_shm(f"{_SCRATCH}/dev/shm")
    pivot_root(_SCRATCH)
    return left_out


def _copy_brought(view: View) -> bool:
    """Copy what an oracle brought along, since verifiers may remove it, and what is mounted cannot be removed.

    False for what is to be shown like everything else: where the work itself is, and what is too large.
    """
    source, target = f"/{_BROUGHT}", f"{_SCRATCH}/{_BROUGHT}"
    if f"{view.workdir}/".startswith(f"{source}/") or not _is_folder("", _BROUGHT):
        return False
    try:
        with open(os.memfd_create(_BROUGHT), "w+b") as archive:
            pack(source, archive, _BROUGHT_BYTES)
            archive.seek(0)
            os.mkdir(target)
            with closing(os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
                unpack(archive, folder)
        status = os.stat(source, follow_symlinks=False)
        os.chown(target, status.st_uid, status.st_gid)
        os.chmod(target, stat.S_IMODE(status.st_mode))
    except (OSError, SandboxError):  # an agent that made it so must not keep its verifier from work
        shutil.rmtree(target, ignore_errors=True)
        return False
    return True


def _show_with_frozen(view: View, frozen: Frozen, own: Collection[str]) -> int:
    """Show the frozen system, and beside and within it what is shared; returns how many entries are left out."""
    system = f"{_SCRATCH}/sys"  # free as long as the real one is not there
    attach_mounts(frozen.mounts, system)
    parts = frozen.division.parts
    # What is no folder can do its work in / without being opened below: only what was looked at may be there.
    names = {name for name in os.listdir(system) if parts[""](name) or name in parts or not _is_folder(system, name)}
    left_out = _show(names.difference(own), system, _SCRATCH, view.known)
    shared = {name for name in os.listdir("/") if not parts[""](name) and _is_folder("", name)}
    left_out += _show(shared.difference(own, names), "", _SCRATCH, view.known, stat.S_ISDIR)
    for part in _whole_folders(parts):
        live = {name for name in os.listdir(f"/{part}") if not parts[part](name) and f"{part}/{name}" not in parts}
        left_out += _show(live, f"/{part}", f"{_SCRATCH}/{part}", ())
    for path in frozen.shared:
        _share_again(path)
    for path in frozen.division.covered:
        _cover(system, path)
    unmount(system)
    return left_out


def _whole_folders(parts: Iterable[str]) -> list[str]:
    """Those that are folders, and below folders, in the frozen system: no link may lead from it back to the agent."""
    found = [""]
    for part in filter(None, parts):
        if part.rpartition("/")[0] in found and _is_folder(_SCRATCH, part) and _is_folder("", part):
            found.append(part)
    return found[1:]


def _is_folder(base: str, name: str) -> bool:
    return os.path.isdir(f"{base}/{name}") and not os.path.islink(f"{base}/{name}")


def _share_again(path: str) -> None:
    """Show something of the agent at its place in the frozen system, unless it is not the same kind of thing there.

    Step by step, so that no link on the way is followed: neither out of the agent's files nor back into them.
    """
    names = [name for name in path.split("/") if name]
    nothing_there = suppress(FileNotFoundError, NotADirectoryError)
    with nothing_there, _opened("/", names) as source, _opened(_SCRATCH, names) as target:
        kinds = {stat.S_IFMT(os.fstat(descriptor).st_mode) for descriptor in (source, target)}
        if len(kinds) == 1 and kinds <= _SHARED_KINDS:
            bind(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}", recursive=True)


def _cover(system: str, path: str) -> None:
    """Show a folder of the system inside of a shared one. Raises OSError when there is no such folder any more."""
    names = path.split("/")
    try:
        source = os.open(f"{system}/{path}", _STEP | os.O_DIRECTORY)
    except FileNotFoundError:
        return  # the image has none, and neither has the copy
    with _opened(_SCRATCH, names) as target:
        # A link in /proc is not followed here: it would be the link that is mounted on.
        bind_opened(source, target, recursive=True)
    os.close(source)


def _hide(files: Mapping[str, str | None], *, rootless: bool) -> None:
    """Have files of shared folders not be there, or say a text: by overlays on their folders.

    One overlay does for all that lies below a folder: they cannot be stacked any higher. What lies aside for it is
    where the real /sys will be.
    """
    folders: dict[str, list[str]] = {}
    for path in sorted(files, key=lambda path: path.count("/")):
        folder = path.rpartition("/")[0].strip("/")
        top = next((other for other in folders if f"{folder}/".startswith(f"{other}/")), folder)
        folders.setdefault(top, []).append(path.strip("/"))
    for number, (folder, paths) in enumerate(folders.items()):
        with suppress(FileNotFoundError, NotADirectoryError), _opened(_SCRATCH, folder.split("/")) as target:
            aside = f"{_SCRATCH}/sys/{number}"
            for part in ("marks", "upper", "work"):
                os.makedirs(f"{aside}/{part}")
            for path in paths:
                _mark(f"{aside}/marks", path.removeprefix(f"{folder}/"), target, files[f"/{path}"])
            _own_as(f"{aside}/upper", os.fstat(target))
            shown = f"/proc/self/fd/{target}"
            mount_overlay([f"{aside}/marks", shown], f"{aside}/upper", f"{aside}/work", shown, rootless=rootless)


def _mark(marks: str, path: str, shown: int, text: str | None) -> None:
    """Put into a layer what has a file of the folder below not be there, or say a text."""
    *folders, _ = path.split("/")
    for depth in range(1, len(folders) + 1):
        folder = "/".join(folders[:depth])
        try:
            status = os.lstat(folder, dir_fd=shown)
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISDIR(status.st_mode):
            return
        if not os.path.isdir(f"{marks}/{folder}"):
            os.mkdir(f"{marks}/{folder}")
            _own_as(f"{marks}/{folder}", status)
    if text is None:
        os.mknod(f"{marks}/{path}", stat.S_IFCHR, os.makedev(0, 0))
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(path, dir_fd=shown)
        with open(f"{marks}/{path}", "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        _own_as(f"{marks}/{path}", status)


def _own_as(path: str, status: os.stat_result) -> None:
    os.chown(path, status.st_uid, status.st_gid)
    os.chmod(path, stat.S_IMODE(status.st_mode))


@contextmanager
def _opened(base: str, names: Sequence[str]) -> Iterator[int]:
    current = os.open(base, _STEP)
    try:
        for index, name in enumerate(names, 1):
            below = os.open(name, _STEP | (os.O_DIRECTORY if index < len(names) else 0), dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _show(
    entries: Collection[str], source: str, target: str, known: Collection[str], wanted: Callable[[int], bool] = bool
) -> int:
    """Show entries of a directory once more, the known names first; returns how many there were too many.

    Those whose mode is not `wanted` when their turn comes are left out.

    A mount namespace holds only so many mounts, and an agent that fills its root must not keep its verifier from work.
    """
    ordered = sorted(entries, key=lambda name: (name not in known, name))
    for entry in ordered[:_MAX_SHOWN]:
        _show_again(f"{source}/{entry}", f"{target}/{entry}", wanted)
    return len(ordered[_MAX_SHOWN:])


def _show_again(source: str, target: str, wanted: Callable[[int], bool]) -> None:
    """Bind a directory, file, pipe or socket; a link is copied, and a device left out.

    By descriptor, so that what was looked at is what is bound: the agent may be renaming things meanwhile. What it
    removes meanwhile cannot be bound any more, and is not there.
    """
    with suppress(FileNotFoundError):
        descriptor = os.open(source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        mode = os.fstat(descriptor).st_mode
        try:
            if not wanted(mode):
                return
            if stat.S_ISDIR(mode):
                os.mkdir(target)
                bind_opened(descriptor, target, recursive=True)
            elif stat.S_ISLNK(mode):
                os.symlink(os.readlink("", dir_fd=descriptor), target)
            elif stat.S_IFMT(mode) in _BOUND:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
                bind_opened(descriptor, target)
        finally:
            os.close(descriptor)
