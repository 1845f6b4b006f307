"""V11: does the instruction say what is checked? A reading of the tests against what the agent is told.

A file or a key counts as hidden only if the tests need it, the solution has it, and neither the instruction nor any
text of the environment has a word of it. Then nobody can know of it who has not read the tests.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.check.reading import PythonReads, file_names, python_reads, texts_below
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.output import format_of

CHECK: CheckId = "V11"
TITLE = "instruction against tests"

_SYSTEM = re.compile(r"/(?:tests|logs|tmp|usr|etc|proc|sys|dev|bin|lib|var|run|solution)/")
_DATA = ("json", "jsonl", "csv", "tsv", "md", "yaml", "toml", "txt")
_DOCUMENT = re.compile(r"(?<![\w.])/[\w./-]+\.(?:md|txt|rst|pdf|json|ya?ml|toml|html|proto|xsd)\b")
_PLAIN_IMAGE = re.compile(
    r"(?:docker\.io/)?(?:library/)?(?:python|ubuntu|debian|alpine|node|golang|rust|gcc|ruby)(?::|@|$)"
)
_NOT_A_WORD = re.compile(r"[\W_]+")
_PRECISION = re.compile(
    r"toleran|within|±|\+/-|accura|precis|decimal|round|significant|approximat|exact|error|digit|percent|%|close",
    re.IGNORECASE,
)
_TOLERANCE = re.compile(
    r"\b(?:rel|abs|rtol|atol|rel_tol|abs_tol|tolerance|tol)\s*=\s*(\d[\d.]*(?:e-?\d+)?)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Told:
    """Everything that an agent can read: the instruction, and the texts and names of the environment's files.

    Beside it stand the words of the solution, which has whatever the tests need.
    """

    instruction: str
    texts: tuple[str, ...]
    names: frozenset[str]
    solution: str

    def mentions(self, word: str) -> bool:
        """Whether a word is anywhere, however its parts are joined."""
        plain = _plain(word)
        return any(plain in text for text in (self.instruction, *self.texts))

    def is_needed(self, word: str) -> bool:
        """Whether the solution has a word, or there is no solution that could be without it."""
        return not self.solution.strip() or _plain(word) in self.solution


def cases(_: Subject) -> Iterable[Case]:
    """Nothing is tried: this check reads."""
    return ()


def findings(subject: Subject, _: Mapping[str, CaseVerdict]) -> CheckResult:
    """A finding for everything that is checked and nowhere said."""
    if subject.task.steps:
        return skipped(CHECK, "a task with steps has an instruction for each, and tests that may be about all of them")
    told = _told(subject)
    reads = {
        path: python_reads(content.decode("utf-8", "replace"))
        for path, content in subject.tests.items()
        if path.endswith(".py") and not path.endswith("verifier_kit.py")
    }
    if not reads:
        return skipped(CHECK, "only tests in Python are read, and the task has none")
    unseen = _unseen(subject, told, reads)
    if unseen:  # what is said there, nobody knows here
        return concluded(CHECK, list(_hidden_tolerance(subject)), {"not_read": unseen})
    found = [*_hidden_paths(subject, reads, told), *_hidden_keys(subject, reads, told)]
    return concluded(CHECK, [*found, *_hidden_tolerance(subject)])


def _unseen(subject: Subject, told: _Told, reads: Mapping[str, PythonReads]) -> str | None:
    """A file that tells the agent more and that is not in the task's folder, but in its image."""
    image = subject.task.config.environment.docker_image
    if image and not _PLAIN_IMAGE.match(image):
        return image
    results = {path for found in reads.values() for path in found.paths} | {subject.task.output.path}
    for path in _DOCUMENT.findall(subject.instruction):
        name = posixpath.basename(path)
        if path not in results and name not in told.names and not any(_plain(name) in text for text in told.texts):
            return str(path)
    return None


def _told(subject: Subject) -> _Told:
    root = subject.task.root
    texts = (_plain(text) for text in texts_below(root, "environment").values())
    names = frozenset(posixpath.basename(path) for path in file_names(root, "environment"))
    solution = _plain("\n".join(texts_below(root, "solution").values()))
    return _Told(_plain(subject.instruction), tuple(texts), names, solution)


def _plain(text: str) -> str:
    """A text by its words alone, each with a space around it: `max_load`, `Max load` and `max-load` are the same."""
    return f" {_NOT_A_WORD.sub(' ', text).lower().strip()} "


def _hidden_paths(subject: Subject, reads: Mapping[str, PythonReads], told: _Told) -> Iterator[CheckFinding]:
    where = {path: (file, line) for file, found in reads.items() for path, line in found.paths.items()}
    for path, (file, line) in sorted(where.items()):
        name = posixpath.basename(path)
        if _SYSTEM.match(path) or "." not in name or name in told.names:
            continue
        other = _asked_instead(path, subject, told)
        if told.mentions(name) or not told.is_needed(name) or (other is None and _is_told(path, told, subject)):
            continue
        instead = f"; it asks for {other}, which no test reads" if other else ""
        message = f"tests/{file}:{line} reads {path}, which the instruction never names{instead}"
        fix = f"say in the instruction that the result belongs in {path}"
        yield _finding(subject, "path-not-named", path, "major", message, fix)


def _asked_instead(path: str, subject: Subject, told: _Told) -> str | None:
    """The output that the instruction asks for in place of a path, and that neither tests nor solution know of."""
    output = subject.task.output
    if output.path is None or output.source != "inferred" or output.path == path:
        return None
    alike = posixpath.dirname(output.path) == posixpath.dirname(path) and output.format == format_of(path)
    name = posixpath.basename(output.path)
    known = name in told.names or _plain(name) in told.solution
    tested = any(name.encode() in content for content in subject.tests.values())
    return output.path if alike and not known and not tested else None


def _is_told(path: str, told: _Told, subject: Subject) -> bool:
    """Whether an agent may guess a file: by its name without the suffix, or by a folder of its own that is named."""
    name, folder = posixpath.basename(path), posixpath.dirname(path)
    own_folder = folder not in ("/", subject.task.workdir) and folder.count("/") > 1
    words = [posixpath.splitext(name)[0], *([posixpath.basename(folder)] if own_folder else [])]
    return any(told.mentions(word) for word in words)


def _hidden_keys(subject: Subject, reads: Mapping[str, PythonReads], told: _Told) -> Iterator[CheckFinding]:
    where = {
        (path, key): (file, line)
        for file, found in reads.items()
        for path, keys in found.keys.items()
        for key, line in keys.items()
    }
    for (path, key), (file, line) in sorted(where.items()):
        if _SYSTEM.match(path) or posixpath.basename(path) in told.names:
            continue
        if told.mentions(key) or not told.is_needed(key):
            continue
        message = f"tests/{file}:{line} reads the key `{key}` of {path}, which the instruction never names"
        yield _finding(subject, "key-not-named", key, "major", message, f"name `{key}` in the instruction")


def _hidden_tolerance(subject: Subject) -> Iterator[CheckFinding]:
    # Code is not precise or imprecise; and what an instruction in another language says is not known here.
    of_data = subject.task.output.format in _DATA and sum(map(str.isascii, subject.instruction)) > 0.95 * len(
        subject.instruction
    )
    if not of_data or _PRECISION.search(subject.instruction):
        return
    for path, content in sorted(subject.tests.items()):
        match = _TOLERANCE.search(content.decode("utf-8", "replace")) if path.endswith(".py") else None
        if match and "verifier_kit" not in path:
            message = f"tests/{path} compares numbers ({match[0]}), and the instruction says nothing of precision"
            yield _finding(subject, "tolerance-not-named", path, "note", message, "say how precise the numbers must be")
            return


def _finding(subject: Subject, code: str, what: str, weight: Weight, message: str, fix: str) -> CheckFinding:
    return finding_of(CHECK, subject, f"{code}:{what}", weight, message, fix)
