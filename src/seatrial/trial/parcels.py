"""A task's files packed for sandboxes, kept while many trials need the same ones.

Kept by the digest of the task's content, so that what is found here is always what the record says was used.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Set
from pathlib import Path
from typing import Generic, TypeVar

from seatrial.sandbox.transfer import pack_files, pack_trees
from seatrial.tasks.layout import IGNORED_FOLDERS
from seatrial.trial.rounds import Round
from seatrial.trial.spec import TrialSpec
from seatrial.verify.stage import PackedTests, pack_tests

_KEPT_BYTES = 64 * 2**20
_MOST_BYTES = 4 * 2**20  # of one parcel; a task with larger files takes longer than packing them

T = TypeVar("T")


class Shelf(Generic[T]):
    """Keeps what was used last, up to a number of bytes."""

    def __init__(self, size_of: Callable[[T], int]) -> None:
        self._size_of = size_of
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._bytes = 0

    def take(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under a key, made now if it is not."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = make()
        size = self._size_of(made)
        if size <= _MOST_BYTES:
            self._kept[key] = made
            self._bytes += size
        while self._bytes > _KEPT_BYTES:
            self._bytes -= self._size_of(self._kept.popitem(last=False)[1])
        return made


_archives: Shelf[bytes] = Shelf(len)
_tests: Shelf[PackedTests] = Shelf(lambda tests: len(tests.archive))


def packed_instruction(spec: TrialSpec, of: Round) -> bytes:
    """What every agent finds in its task directory."""

    def pack() -> bytes:
        config = (of.task.root / "task.toml").read_bytes()
        return pack_files({"instruction.md": of.instruction(), "task.toml": config})

    return _archives.take((spec.task_digest, of.name), pack)


def packed_tree(spec: TrialSpec, source: Path, skip: Set[str] = frozenset()) -> bytes:
    """A directory of the task, or one that an agent brings, which is packed each time: it may change."""

    def pack() -> bytes:
        return pack_trees(source, skip=IGNORED_FOLDERS | skip)

    if not source.is_relative_to(spec.task.root):
        return pack()
    return _archives.take((spec.task_digest, source), pack)


def packed_tests(spec: TrialSpec, of: Round) -> PackedTests:
    """The tests of a round. Raises VerifierStageError when it has none."""
    return _tests.take((spec.task_digest, of.name), lambda: pack_tests(of.tests()))
