"""A task's files packed for sandboxes, kept while many trials need the same ones.

Kept by the digest of the task's content, so that what is found here is always what the record says was used.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Set
from pathlib import Path
from typing import Generic, TypeVar

from seatrial.agents.environ import INSTRUCTION_PATH, TASK_DIR
from seatrial.errors import TaskFormatError
from seatrial.sandbox.transfer import pack_layout, pack_trees
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.for_agents import without_check
from seatrial.tasks.ignore import ignored_in
from seatrial.tasks.layout import IGNORED_FOLDERS, read_file
from seatrial.tasks.load import MAX_TOML_BYTES
from seatrial.trial.rounds import Round
from seatrial.trial.spec import TrialSpec
from seatrial.verify.stage import PackedTests, pack_tests

_KEPT_BYTES = 64 * 2**20
_LOGS = {"/logs": 0o755, **dict.fromkeys(("/logs/agent", "/logs/artifacts", "/logs/verifier"), 0o777)}
_MOST_BYTES = 4 * 2**20  # of one archive; a task with larger files takes longer than packing them

T = TypeVar("T")


class ArchiveCache(Generic[T]):
    """Keeps what was used last, up to a number of bytes."""

    def __init__(self, size_of: Callable[[T], int]) -> None:
        self._size_of = size_of
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._bytes = 0

    def take(self, key: Hashable, make: Callable[[], T], may_keep: Callable[[], bool] = lambda: True) -> T:
        """What is kept under a key; if nothing is, it is made now, and kept if that may be."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = make()
        size = self._size_of(made)
        if size <= _MOST_BYTES and may_keep():
            self._kept[key] = made
            self._bytes += size
        while self._bytes > _KEPT_BYTES:
            self._bytes -= self._size_of(self._kept.popitem(last=False)[1])
        return made


_archives: ArchiveCache[bytes] = ArchiveCache(len)
_tests: ArchiveCache[PackedTests] = ArchiveCache(lambda tests: len(tests.archive))


def _unchanged(task_digest: str, root: Path, make: Callable[[], T]) -> Callable[[], T]:
    """Makes something of a task's files. Raises TaskFormatError unless they are still those of the digest."""

    def checked() -> T:
        made = make()
        if digest_folder(root) != task_digest:
            raise TaskFormatError(str(root), ["the task has changed since the job began; start a new job with it"])
        return made

    return checked


def packed_for_agent(spec: TrialSpec, round_: Round, trees: Mapping[str, Path]) -> bytes:
    """What a round's agent finds, to be unpacked at the root: the task, and the directories it brings along."""

    def pack() -> bytes:
        config = read_file(round_.task.root / "task.toml", MAX_TOML_BYTES)[0]
        files = {INSTRUCTION_PATH: round_.instruction(), f"{TASK_DIR}/task.toml": without_check(config)}
        return pack_layout(files, trees, folders=_LOGS, skip=IGNORED_FOLDERS, omit=ignored_in)

    def stays_the_same() -> bool:  # what an agent brings from elsewhere may change
        return all(source.is_relative_to(spec.task.root) for source in trees.values())

    key = (spec.task_digest, spec.task.root, round_.name, *trees.items())
    return _archives.take(key, _unchanged(spec.task_digest, spec.task.root, pack), stays_the_same)


def packed_tree(task_digest: str, source: Path, skip: Set[str] = frozenset()) -> bytes:
    """A directory of the task."""
    left_out = IGNORED_FOLDERS | skip
    return _archives.take((task_digest, source), lambda: pack_trees(source, skip=left_out, omit=ignored_in))


def packed_tests(task_digest: str, round_: Round) -> PackedTests:
    """The tests of a round. Raises VerifierStageError when it has none.

    Those from elsewhere are not kept: the task's digest does not say what they are.
    """
    if round_.given:
        return pack_tests(round_.given)
    make = _unchanged(task_digest, round_.task.root, lambda: pack_tests(round_.tests()))
    return _tests.take((task_digest, round_.name), make)
