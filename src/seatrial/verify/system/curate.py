"""The decision about a whole system: what of the agent's changes is put back or hidden, and what stays."""

import posixpath
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from seatrial.model.record import FileChanges
from seatrial.sandbox.api import Curation, Image
from seatrial.verify.originals import Originals
from seatrial.verify.system.accounts import ACCOUNTS, keep_accounts
from seatrial.verify.system.contents import editable_folders, imported_modules
from seatrial.verify.system.facts import (
    SystemFacts,
    first_to_list,
    make_facts,
    more_to_list,
    program_folders,
    python_folders_of,
    startup_files,
)
from seatrial.verify.system.python_rules import (
    belongs_to_runner,
    entries_in_record,
    replaced_distributions,
    uninstalled_distributions,
)
from seatrial.verify.system.rules import why_not
from seatrial.verify.system.shadows import covered_by
from seatrial.verify.system.shared import hidden_in
from seatrial.verify.system.surroundings import Change, Reason, Surroundings
from seatrial.verify.system.units import NOTHING_EXPECTED, Expected, expected_among

# Caches that are filled again, histories, and what is made anew for the verifier.
_NO_EFFECT = re.compile(
    r"/root/\.cache/.*|/root/\.\w+[-_]h(?:istory|sts)|/var/lib/apt/lists/.*|/var/cache/.*|/var/lib/dpkg/(?:info|triggers)/.*"
    r"|/etc/ld\.so\.cache|.*/__pycache__/.*"
)
_LISTINGS = 4  # prefix, machine or interpreter, version, parts of it


@dataclass(frozen=True, slots=True)
class Curated:
    """What a verifier does not meet as the agent left it, by reason, and what of the agent's system it does meet.

    With `only_image` nothing of the agent's system is there: it was too much to be looked at. `expected` are files that
    it meets since the task's own solution changes them too, and whether the agent left the same.
    `originals` is what the image has in place of files beside the system that were put back.
    """

    put_back: Mapping[str, Reason] = field(default_factory=dict)
    hidden: Mapping[str, Reason] = field(default_factory=dict)
    rewritten: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    only_image: bool = False
    originals: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, bool] = field(default_factory=dict)

    @property
    def anything(self) -> bool:
        """Whether the verifier saw anything otherwise than the agent left it."""
        return bool(self.put_back or self.hidden or self.only_image or self.corrected)

    @property
    def corrected(self) -> frozenset[str]:
        """Files that say something else than the agent wrote; a path file that was rewritten says the same."""
        return frozenset(path for path in self.rewritten if not path.endswith(".pth"))

    @property
    def matters(self) -> bool:
        """Whether that may have cost honest work its reward, so that the verifier is worth asking again."""
        sure = self.hidden or self.only_image or self.corrected
        return bool(sure) or any(not _NO_EFFECT.fullmatch(path) for path in self.put_back)

    def curation(self) -> Curation:
        """The same for a sandbox."""
        out = frozenset(self.put_back), frozenset(self.hidden)
        return Curation(*out, {**self.rewritten, **self.originals}, "nothing" if self.only_image else "rest")


NOTHING = Curated()


async def gather_facts(originals: Originals, image: Image, system: FileChanges) -> SystemFacts:
    """What an image has where tools look for things. Asked only when the agent changed something there."""
    folders = program_folders(image)
    names: dict[str, frozenset[str]] = {}
    wanted = first_to_list(folders) | python_folders_of(change.path for change in each(system))
    for _ in range(_LISTINGS):
        if not wanted:
            break
        names |= dict.fromkeys(wanted, frozenset())
        names |= await originals.names(sorted(wanted))
        wanted = more_to_list(names)
    facts = make_facts(folders, names)
    hooks = await originals.texts(sorted(startup_files(facts.python)))
    asked = frozenset(module for text in hooks.values() for module in imported_modules(text))
    return replace(facts, asked_for=asked - facts.python_modules)


async def with_accounts(around: Surroundings, users: Collection[str], originals: Originals) -> Surroundings:
    """The surroundings with the list of accounts as it is to be, if those that the verifier works as were changed."""
    text = around.texts.get(ACCOUNTS)
    original = (await originals.texts([ACCOUNTS])).get(ACCOUNTS) if text is not None else None
    if text is None or original is None:
        return around
    return replace(around, accounts=keep_accounts(text, original, users))


async def with_neighbours(around: Surroundings, system: FileChanges, originals: Originals) -> Surroundings:
    """The surroundings with what the image has beside and behind files that the agent added."""
    covered = {path: covered_by(path) for path in system.added}
    folders = {posixpath.dirname(path) for path in system.added}
    known = await originals.kinds(sorted(folders.union(*covered.values())))
    return replace(
        around,
        shadows=frozenset(path for path, others in covered.items() if any(known.get(each) for each in others)),
        folders=frozenset(folder for folder in folders if known.get(folder) == "folder"),
    )


async def with_replaced(around: Surroundings, system: FileChanges, originals: Originals) -> Surroundings:
    """The surroundings with the entries of distributions that the agent has another version of, or uninstalled."""
    changes = list(each(system))
    pairs = replaced_distributions(changes, around.facts)
    gone = uninstalled_distributions(changes, around.facts) - set(pairs.values())
    texts = await originals.texts([f"{metadata}/RECORD" for metadata in (*pairs.values(), *gone)])
    owned = {metadata for pair in pairs.items() for metadata in pair}
    for path, text in texts.items():
        metadata = posixpath.dirname(path)
        entries = {f"{posixpath.dirname(metadata)}/{entry}" for entry in entries_in_record(text)}
        if metadata not in gone or _is_only_removed(entries, changes):
            owned |= entries
    return replace(around, replaced=frozenset(owned))


def _is_only_removed(entries: Collection[str], changes: Iterable[Change]) -> bool:
    """Whether what was uninstalled is gone, and nothing else is in its place."""
    left = (change.path for change in changes if change.kind != "removed")
    return not any(path.startswith(tuple(f"{entry}/" for entry in entries)) or path in entries for path in left)


def decide(
    system: FileChanges,
    shared: FileChanges,
    module_folders: Collection[str],
    around: Surroundings,
    expected: Expected = NOTHING_EXPECTED,
) -> Curated:
    """What becomes of the agent's changes to the system and to what is shared."""
    reasons = {change.path: why_not(change, around) for change in each(system)}
    # A path file may add folders of the system, too.
    added = [change for change in each(system) if _is_directly_in(change.path, module_folders)]
    reasons |= {path: reason for path, reason in hidden_in(added, module_folders, around).items() if path in reasons}
    hidden = hidden_in(each(shared), module_folders, around)
    stays = expected_among(expected, {**{path: reason for path, reason in reasons.items() if reason}, **hidden}, around)
    reasons |= dict.fromkeys(stays & reasons.keys())
    rewritten = {path: text for path, reason in reasons.items() if reason and (text := _as_folders(path, around))}
    rewritten |= {ACCOUNTS: around.accounts} if around.accounts is not None and ACCOUNTS in reasons else {}
    return Curated(
        put_back={path: reason for path, reason in reasons.items() if reason and path not in rewritten},
        hidden={path: reason for path, reason in hidden.items() if path not in stays},
        rewritten=rewritten,
        kept=tuple(path for path, reason in reasons.items() if not reason and path not in rewritten),
        only_image=system.truncated,
        expected={path: path in expected.same for path in sorted(stays)},
    )


def _is_directly_in(path: str, folders: Collection[str]) -> bool:
    """Whether a file, or the package or metadata that it belongs to, lies in one of some folders itself."""
    folder = posixpath.dirname(path)
    return folder in folders or posixpath.dirname(folder) in folders


def _as_folders(path: str, around: Surroundings) -> str | None:
    """An editable installation's `.pth` that says the same without running code; None for anything else."""
    if not path.endswith(".pth"):
        return None
    text = around.texts.get(path)
    finder = (text or "").removeprefix("import ").partition(";")[0]
    packages = editable_folders(text, around.texts.get(f"{posixpath.dirname(path)}/{finder}.py"))
    known = around.facts.python_modules | sys.stdlib_module_names
    if packages is None or any(name in known or belongs_to_runner(name, around) for name in packages):
        return None
    return "".join(f"{folder}\n" for folder in sorted(set(packages.values())))


def each(changes: FileChanges) -> Iterator[Change]:
    """The changes one by one."""
    yield from (Change(path, "added") for path in changes.added)
    yield from (Change(path, "modified") for path in changes.modified)
    yield from (Change(path, "removed") for path in changes.removed)
