"""A sandbox in which an end state is laid out: edited for one verification, and made as it was for the next one.

Whether it is as it was, stamps of all its files tell. Where they cannot, or tell of more than the edits, it is not used
again: a verdict must never depend on who was there before.
"""

import io
import posixpath
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from seatrial.errors import ContentError
from seatrial.model.record import FileChanges
from seatrial.sandbox.api import Sandbox, Stamps
from seatrial.sandbox.layer_marks import gone_mark
from seatrial.sandbox.transfer import new_archive, put_packed
from seatrial.trial.odd_files import OddFile, make_odd_file
from seatrial.trial.verification import Verification
from seatrial.trial.work import Work, merge_changes

_USUAL_MODE = 0o644
_MOST_BYTES = 64 * 2**20
_OWNERS = 3  # mode, owner and group come first in a stamp


@dataclass(frozen=True, slots=True)
class Edit:
    """A file of an end state that is to be another one before it is judged; without `content` it is to be gone.

    One that replaces another has its owner, and its mode too unless one is given. A link is replaced, not followed.
    With `odd`, something else than a plain file is to be in its place.
    """

    path: str
    content: bytes | None = None
    mode: int | None = None
    odd: OddFile | None = None

    @property
    def leaves_something(self) -> bool:
        """Whether there is something at the path afterwards."""
        return self.content is not None or self.odd is not None


@dataclass(frozen=True, slots=True)
class _Original:
    """What was at a path before it was edited: its archive, or nothing. `is_whole` unless it cannot be put back."""

    path: str
    archive: bytes | None
    member: tarfile.TarInfo | None
    is_whole: bool


@dataclass(eq=False, slots=True)
class LaidOut:
    """One such sandbox. Where an agent was run for it, `verification` has what that left behind.

    Otherwise `work` has what is laid out of an agent's. `added` are files that lie over the end state and are no edits.
    """

    sandbox: Sandbox
    verification: Verification | None = None
    work: Work | None = None
    added: tuple[str, ...] = ()
    _stamps: Stamps | None = None
    _originals: list[_Original] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def keep_open(self, stack: AsyncExitStack) -> None:
        """Hold what is to be closed when the sandbox is not needed any more."""
        self._stack = stack

    async def remove(self) -> None:
        """Remove the sandbox."""
        await self._stack.aclose()

    async def note_stamps(self) -> None:
        """Note how everything is now, to compare with later."""
        self._stamps = await self.sandbox.stamps()

    async def edit(self, edits: Sequence[Edit]) -> FileChanges:
        """Make edits; returns what an agent would have changed by them, with the files that lay over the state."""
        self._originals = []
        for edit in edits:
            original = await self._look_at(posixpath.normpath(edit.path))
            self._originals.append(replace(original, is_whole=False) if edit.odd else original)
            await self._apply(edit, original)
        there = {each.path for each in self._originals if each.member}
        written = {posixpath.normpath(edit.path) for edit in edits if edit.leaves_something}
        removed = {posixpath.normpath(edit.path) for edit in edits if not edit.leaves_something}
        return FileChanges(
            added=tuple(sorted((written - there) | set(self.added) - removed)),
            modified=tuple(sorted(written & there)),
            removed=tuple(sorted(removed & there)),
        )

    async def _look_at(self, path: str) -> _Original:
        with new_archive() as archive:
            try:
                await self.sandbox.get(path, archive, limit=_MOST_BYTES)
            except FileNotFoundError:
                return _Original(path, None, None, is_whole=True)
            except ContentError:  # too large, or something that is no file
                return _Original(path, None, tarfile.TarInfo(posixpath.basename(path)), is_whole=False)
            archive.seek(0)
            packed = archive.read()
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            member = tar.next()
        is_whole = member is not None and (member.isreg() or member.issym())
        return _Original(path, packed, member or tarfile.TarInfo(posixpath.basename(path)), is_whole)

    async def _apply(self, edit: Edit, original: _Original) -> None:
        directory, name = posixpath.split(original.path)
        if edit.odd is not None:
            await make_odd_file(self.sandbox, original.path, edit.odd)
        elif edit.content is not None and original.is_whole:
            await put_packed(self.sandbox, directory, _pack(_edited(name, edit, original.member), edit.content))
        elif edit.content is not None:  # a directory with all that is in it
            await self._lay_over(directory, _pack(_edited(name, edit, original.member), edit.content))
        elif original.member:
            await self._lay_over(directory, _pack(gone_mark(name)))

    async def _lay_over(self, directory: str, layer: bytes) -> None:
        with new_archive() as archive:
            archive.write(layer)
            archive.seek(0)
            await self.sandbox.unpack_layer(directory, archive)

    async def is_as_before(self) -> bool:
        """Whether the sandbox can be used again: what was edited is put back, and nothing else has been touched."""
        before = self._stamps
        if before is None or not all(original.is_whole for original in self._originals):
            return False
        await self.sandbox.renew_verifier()  # which ends whatever the verifier left running
        now = await self.sandbox.stamps()
        if now is None or await self.sandbox.processes():
            return False
        if _touched(before, now) - _touched_by_edits(before, now, [each.path for each in self._originals]):
            return False
        for original in reversed(self._originals):
            await self._put_back(original)
        if self._originals:
            self._stamps = await self.sandbox.stamps()
        return self._stamps is not None and self._stamps.keys() == before.keys()

    async def _put_back(self, original: _Original) -> None:
        directory, name = posixpath.split(original.path)
        if original.archive is None:
            await self._lay_over(directory, _pack(gone_mark(name)))
        else:
            await put_packed(self.sandbox, directory, original.archive)


def _edited(name: str, edit: Edit, replaced: tarfile.TarInfo | None) -> tarfile.TarInfo:
    """A file like the one that it replaces, if that is one."""
    member, like = tarfile.TarInfo(name), replaced if replaced and replaced.isreg() else None
    usual = like.mode if like else _USUAL_MODE
    member.mode = edit.mode if edit.mode is not None else usual
    if like:
        member.uid, member.gid = like.uid, like.gid
    return member


def _pack(member: tarfile.TarInfo, content: bytes = b"") -> bytes:
    """An archive with one member."""
    member.size = len(content)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _touched(before: Stamps, now: Stamps) -> set[str]:
    return {path for path in (*before, *now) if before.get(path) != now.get(path)}


def _touched_by_edits(before: Stamps, now: Stamps, edited: Iterable[str]) -> set[str]:
    """What edits touch: the files themselves, and directories above them, whose owners and modes stay."""
    files = set(edited)
    above = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    return files | {path for path in above if before.get(path, ())[:_OWNERS] == now.get(path, ())[:_OWNERS]}


def files_below(folder: Path) -> tuple[str, ...]:
    """Where the files of a folder are once it is laid over the root of a sandbox; odd bytes of a name written out."""
    found = (bytes(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    return tuple(sorted(f"/{path.decode('utf-8', 'backslashreplace')}" for path in found))


def with_changes(verification: Verification, edited: FileChanges) -> Verification:
    """A verification in which edits count as the agent's own changes: the verifier is shielded from them as well."""
    if edited == FileChanges():
        return verification
    gone = set(edited.removed)

    def merged(changes: FileChanges) -> FileChanges:
        both = merge_changes([changes, edited])
        lists = {"added": both.added, "modified": both.modified}
        left = {name: tuple(path for path in paths if path not in gone) for name, paths in lists.items()}
        return both.model_copy(update=left)

    work = verification.work
    return replace(verification, work=replace(work, changes=merged(work.changes), found=merged(work.found)))
