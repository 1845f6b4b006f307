"""The decision about a whole system: which of the agent's changes are put back or hidden for the verifier.

`rules.py` and `python_rules.py` judge single files. This module gathers what they compare with, makes the exceptions of
the task's own solution, and writes what a record says about it.
"""

import posixpath
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from seatrial.model.base import StrictModel, to_json
from seatrial.model.evaluation import NEEDS_SYSTEM, ErrorTag
from seatrial.model.outcome import format_reward
from seatrial.model.record import FileChanges, VerifierRun
from seatrial.sandbox.api import Curation, Image, SandboxBackend
from seatrial.verify.facts import (
    ACCOUNTS,
    Change,
    Reason,
    Surroundings,
    SystemFacts,
    distribution_name,
    editable_folders,
    first_to_list,
    imported_modules,
    is_tool,
    make_facts,
    module_name,
    more_to_list,
    plain_name,
    program_folders,
    python_folders_of,
    startup_files,
)
from seatrial.verify.integrity import make_tag, some
from seatrial.verify.originals import Fingerprint, Originals, open_originals
from seatrial.verify.python_rules import (
    belongs_to_runner,
    entries_in_record,
    is_python_tool,
    python_folder,
    replaced_distributions,
    uninstalled_distributions,
)
from seatrial.verify.rules import covered_by, hidden_in, why_not, why_not_at_home

# What the task's own solution changes, the agent may change too, by units: a package as a whole, else a single file.
# Where the agent left something else than the solution does, that may stay as well, but not in the place of what
# verifiers are made of: start files, plug-ins, test runners, and, unless the task names them, tools and libraries.

_OF_PYTHON = re.compile(r".*/(?:site|dist)-packages/([^/]+)(?:/.*)?")
_LIST = re.compile(r"/var/lib/dpkg/info/[^/]+\.list")
# Many units write into these, so that none of them has a part in what the others put there.
_OF_ALL = re.compile(
    r".*/__pycache__/.*|.*\._?pth|/etc/ld\.so\.(?:cache|preload)|/etc/passwd"
    r"|/var/lib/(?:dpkg|apt|rpm|pacman)/.*|/var/cache/.*|/lib/apk/.*"
)
_OLD_NAME = re.compile(r"(?:/usr)?/(?:s?bin|lib\d*|libx32)/")  # where /bin leads to /usr/bin, a file has two
_AT_ROOT = re.compile(r"/[^/]+")


@dataclass(frozen=True, slots=True)
class Units:
    """Units of a system, by what belongs to them: files, and packages of Python by their names.

    `contents` are fingerprints of those files that a verifier would not meet as they were left.
    """

    files: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    contents: Mapping[str, Fingerprint] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Whether a file, or a package of Python that was added with all that is in it, belongs to one of them."""
        if _OF_ALL.fullmatch(path):
            return False
        is_listed = path in self.files or f"{path}/__init__.py" in self.files
        return is_listed or _package_of(path) in self.packages


NO_UNITS = Units()


@dataclass(frozen=True, slots=True)
class Expected:
    """The units that an agent may change, and those files of them that it left as the task's own solution does."""

    units: Units = NO_UNITS
    same: frozenset[str] = frozenset()


NOTHING_EXPECTED = Expected()


def package_lists(changes: FileChanges) -> tuple[str, ...]:
    """The files that list what belongs to the packages of the distribution that were installed or replaced."""
    return tuple(path for path in (*changes.added, *changes.modified) if _LIST.fullmatch(path))


def find_units(changes: FileChanges, lists: Iterable[str], contents: Mapping[str, Fingerprint]) -> Units:
    """The units that some changes concern; `lists` say what belongs to packages of the distribution."""
    changed = [*changes.added, *changes.modified, *changes.removed]
    packages = frozenset(name for path in changed if not _OF_ALL.fullmatch(path) and (name := _package_of(path)))
    listed = (file for text in lists for file in _files_listed(text))
    return Units(frozenset((*changed, *listed)), packages, contents)


def _package_of(path: str) -> str | None:
    """The package of Python that a file belongs to, by module or distribution."""
    match = _OF_PYTHON.fullmatch(path)
    return plain_name(distribution_name(match[1]) or module_name(match[1])) if match else None


def _files_listed(text: str) -> Iterator[str]:
    """The files in a list of dpkg, which has their folders too, under all names that they have."""
    paths = [line for line in text.splitlines() if line.startswith("/")]
    folders = {posixpath.dirname(path) for path in paths}
    for path in paths:
        if path not in folders and path != "/.":
            yield path
            if _OLD_NAME.match(path):
                yield path.removeprefix("/usr") if path.startswith("/usr/") else f"/usr{path}"


def expected_among(expected: Expected, reasons: Mapping[str, Reason], around: Surroundings) -> frozenset[str]:
    """Those of some files, which a verifier would not meet for a reason each, that may stay as the agent left them."""
    others = {_unit_of(path) for path in reasons if path not in expected.same and not _OF_ALL.fullmatch(path)}
    return frozenset(
        path
        for path, reason in reasons.items()
        if (path in expected.same and _unit_of(path) not in others)
        or (expected.units.has(path) and not _is_of_verifiers(path, reason, around))
    )


def _unit_of(path: str) -> str:
    return _package_of(path) or path


def _is_of_verifiers(path: str, reason: Reason, around: Surroundings) -> bool:
    """Whether a file is what verifiers are made of, so that only the solution's own may take its place."""
    if (reason == "loaded by itself" and not _AT_ROOT.fullmatch(path)) or path in around.facts.places:
        return True
    name = posixpath.basename(path)
    if package := _package_of(path):
        is_named = is_python_tool(package, around) and around.named.has_program(package)
        return belongs_to_runner(package, around) and not is_named
    is_library = python_folder(path, around.facts) is not None or ".so" in name
    return (is_tool(name) or is_library) and not (around.named.has_file(path) or around.named.has_program(name))


# The decision, and what it is based on.

# Caches that are filled again, histories, and what is made anew for the verifier.
_NO_EFFECT = re.compile(
    r"/root/\.cache/.*|/root/\.\w+[-_]h(?:istory|sts)|/var/lib/apt/lists/.*|/var/cache/.*|/var/lib/dpkg/(?:info|triggers)/.*"
    r"|/etc/ld\.so\.cache|.*/__pycache__/.*"
)
_MOST_IMAGES = 64
_ACCOUNT_FIELDS = 7
_MODULES: dict[object, frozenset[str]] = {}
_LISTINGS = 4  # prefix, machine or interpreter, version, parts of it


@dataclass(frozen=True, slots=True)
class Curated:
    """What a verifier does not meet as the agent left it, by reason, and what of the agent's system it does meet."""

    put_back: Mapping[str, Reason] = field(default_factory=dict)
    hidden: Mapping[str, Reason] = field(default_factory=dict)
    rewritten: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    only_image: bool = False
    """Nothing of the agent's system is there: it was too much to be looked at."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """What the image has in place of files beside the system that were put back."""
    expected: Mapping[str, bool] = field(default_factory=dict)
    """Files that it meets since the task's own solution changes them too, and whether the agent left the same."""

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

    @property
    def others(self) -> tuple[str, ...]:
        """Files that it meets for the sake of the solution, which leaves something else there."""
        return tuple(path for path, is_same in self.expected.items() if not is_same)

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


async def modules_of(backend: SandboxBackend, image: Image) -> frozenset[str]:
    """The modules that interpreters of an image have. Kept, since a daemon makes a container to tell."""
    key = image.digest or (image.reference, image.layers)
    if key not in _MODULES:
        async with open_originals(backend, image) as originals:
            facts = await gather_facts(originals, image, FileChanges())
        if len(_MODULES) >= _MOST_IMAGES:
            _MODULES.pop(next(iter(_MODULES)))
        _MODULES[key] = facts.importable
    return _MODULES[key]


async def with_accounts(around: Surroundings, users: Collection[str], originals: Originals) -> Surroundings:
    """The surroundings with the list of accounts as it is to be, if those that the verifier works as were changed."""
    text = around.texts.get(ACCOUNTS)
    original = (await originals.texts([ACCOUNTS])).get(ACCOUNTS) if text is not None else None
    if text is None or original is None:
        return around
    return replace(around, accounts=keep_accounts(text, original, users))


def keep_accounts(text: str, original: str, users: Collection[str]) -> str | None:
    """The agent's list of accounts with those of some users (names or numbers) as in the image; None if they are so.

    Settings are read from a home and commands run by a shell, so whoever moves them moves the verifier.
    """
    lines, known = text.splitlines(), original.splitlines()
    kept = [line for line in known if _is_account_of(line, users)]
    if all(_has_account(line, lines) for line in kept):
        return None
    names = {line.partition(":")[0] for line in kept}
    rest = [line for line in lines if line.partition(":")[0] not in names]
    return "".join(f"{line}\n" for line in (*kept, *rest))


def _is_account_of(line: str, users: Collection[str]) -> bool:
    fields = line.split(":")
    return len(fields) == _ACCOUNT_FIELDS and (fields[0] in users or fields[2] in users)


def _has_account(line: str, lines: Sequence[str]) -> bool:
    """Whether a search by name and one by number both lead to this account, unchanged but for its password."""
    fields = line.split(":")
    entries = [entry.split(":") for entry in lines]
    by_name = next((entry for entry in entries if entry[0] == fields[0]), None)
    by_number = next((entry for entry in entries if len(entry) > 2 and entry[2] == fields[2]), None)
    return by_name is not None and by_name is by_number and by_name[2:] == fields[2:]


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
    at_home = {change.path: reason for change in each(shared) if (reason := why_not_at_home(change, around))}
    hidden = {**at_home, **hidden_in(each(shared), module_folders, around)}
    stays = expected_among(expected, {**{path: reason for path, reason in reasons.items() if reason}, **hidden}, around)
    reasons |= dict.fromkeys(stays & reasons.keys())
    rewritten = {path: text for path, reason in reasons.items() if reason and (text := _as_folders(path, around))}
    rewritten |= {ACCOUNTS: around.accounts} if around.accounts is not None and ACCOUNTS in reasons else {}
    hidden = {path: reason for path, reason in hidden.items() if path not in stays}
    put_back = {path: hidden.pop(path) for path in at_home if path in hidden and path in around.originals}
    return Curated(
        put_back={path: reason for path, reason in reasons.items() if reason and path not in rewritten} | put_back,
        hidden=hidden,
        originals={path: around.originals[path] for path in put_back},
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


# Tags, and the whole list beside them: what a record says about the system that a verifier worked with.

ABOUT_SYSTEM = 'the task\'s own solution passes only on the system it left; say `system = "agent"` below [verifier]'


class SystemEvidence(StrictModel):
    """verifier/system.json: what of the agent's system the verifier did not meet, and why, and what it did meet.

    `reference` is what it met because the task's own solution changes it, too: as that leaves it, or otherwise.
    """

    put_back: dict[str, str]
    hidden: dict[str, str]
    rewritten: dict[str, str]
    kept: tuple[str, ...]
    only_image: bool
    reference: dict[str, str]


def write_evidence(path: Path, curated: Curated) -> None:
    """Store all of it beside the verifier's files."""
    evidence = SystemEvidence(
        put_back=dict(curated.put_back),
        hidden=dict(curated.hidden),
        rewritten=dict(curated.rewritten),
        kept=curated.kept,
        only_image=curated.only_image,
        reference={path: "the same" if is_same else "another" for path, is_same in curated.expected.items()},
    )
    path.write_bytes(to_json(evidence))


def system_tags(curated: Curated, run: VerifierRun, planted: tuple[str, ...]) -> list[ErrorTag]:
    """Mechanical tags about the system the verifier worked with. They inform; no reward changes by them."""
    tags = []
    if curated.put_back:
        said = f"put back for the verifier as they are in the image: {_by_reason(curated.put_back)}"
        tags.append(make_tag("verifier_tools_restored", said))
    if curated.corrected:
        accounts = some(sorted(curated.corrected))
        said = f"home and shell of the verifier's accounts put back as they are in the image: {accounts}"
        tags.append(make_tag("verifier_tools_restored", said))
    if curated.hidden:
        tags.append(make_tag("hidden_from_verifier", f"hidden from the verifier: {_by_reason(curated.hidden)}"))
    if curated.only_image:
        said = "the agent changed more of the system than can be looked at; the verifier worked with the image's"
        tags.append(make_tag("changes_truncated", said))
    if curated.kept and not curated.only_image:
        said = f"the verifier saw {len(curated.kept):,} changes of the agent to the system: {some(curated.kept)}"
        tags.append(make_tag("system_changed", said))
    if planted:
        tags.append(make_tag("changed_during_verification", f"while the verifier was at work: {some(planted)}"))
    return [*tags, *_solution_tags(curated, run)]


def _solution_tags(curated: Curated, run: VerifierRun) -> Iterator[ErrorTag]:
    """What there is to say about the system and the task's own solution."""
    if run.trust == "as_left" and curated.anything:
        yield make_tag(NEEDS_SYSTEM, ABOUT_SYSTEM)
    if curated.others:
        said = f"the task's own solution changes them, too, but leaves something else: {some(curated.others)}"
        yield make_tag("reference_units", said)


def dispute_tag(reward: float, disputed: float) -> ErrorTag:
    """The tag of a verdict that depends on whose system is believed."""
    said = f"{format_reward(reward)} on the verifier's own system, {format_reward(disputed)} on the one the agent left"
    said += "; the lower one counts"
    return make_tag("disputed_verdict", said)


def _by_reason(files: Mapping[str, Reason]) -> str:
    counts = Counter(files.values())
    parts = [
        f"{count:,} {reason} ({some(sorted(path for path in files if files[path] == reason))})"
        for reason, count in counts.items()
    ]
    return "; ".join(parts)
