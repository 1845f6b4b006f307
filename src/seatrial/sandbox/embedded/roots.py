"""Which directories make up a sandbox's root: one overlay for an image of layers, several for the `host` image.

A Tree is one overlay: where it is mounted, what lies below it, and the directory that takes its writes.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seatrial.sandbox.embedded.own_system import make_own_system
from seatrial.sandbox.embedded.rootfs import bind_lowers, mount_overlay
from seatrial.sandbox.embedded.settle import lock_passwords, make_basics, name_machine
from seatrial.sandbox.syscalls import (
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    bind,
    bind_shifted,
    mount,
    restrict,
)

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
    """What is the same for all sandboxes of a spawner.

    `shift` is a user namespace to move owners into, and `owner` the id that is root in it. `prepared` is the folder of
    what all sandboxes share; the directories in `shifted` lie there with their owners moved. `open_files` limits how
    many files a command may have open, softly and hard.
    """

    shift: int | None
    owner: int
    rootless: bool
    prepared: str
    shifted: dict[str, str]
    open_files: tuple[int, int]

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
    for folder, folders, files in os.walk(top):
        for name in list(folders):
            mode = _mode(f"{folder}/{name}")
            if stat.S_ISDIR(mode) and not mode & 0o001:
                folders.remove(name)
                yield os.path.relpath(f"{folder}/{name}", top)
        for name in files:
            mode = _mode(f"{folder}/{name}")
            if stat.S_ISREG(mode) and not mode & 0o004:
                yield os.path.relpath(f"{folder}/{name}", top)


def _mode(path: str) -> int:
    """The type and permissions of an entry, 0 when it is gone since its directory was read."""
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0
