"""The mutants of an answer by its format: a bounded number, the same ones in every run, each really different."""

from collections.abc import Iterable, Iterator

from seatrial.check.answers.codecs import MAX_DATA_BYTES, read_data
from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.data import DataMutants
from seatrial.check.mutants.mutant import Mutant, bounded
from seatrial.check.mutants.other_code import TextCodeMutants, is_other_code
from seatrial.check.mutants.plain_text import TextMutants
from seatrial.check.mutants.python_code import PythonMutants, read_python
from seatrial.model.output import OutputFormat, format_of

MAX_MUTANTS = 60
_MAX_TOTAL_BYTES = 16 * 2**20


def mutants_of(
    content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary, limit: int = MAX_MUTANTS
) -> list[Mutant]:
    """Wrong answers like an accepted one; none for what is too large, malformed, or of an unknown format."""
    if not content.strip() or len(content) > MAX_DATA_BYTES:
        return []
    fitting = max(8, min(limit, _MAX_TOTAL_BYTES // len(content)))
    return list(bounded(_rounds(content, path, answer_format, words), content, fitting))


def is_code(path: str) -> bool:
    """Whether an answer is a program, which a verifier may judge by running it."""
    return path.endswith(".py") or is_other_code(path)


def rewritten(content: bytes, path: str, answer_format: OutputFormat | None) -> bytes | None:
    """The same answer as its mutants are written: what they are compared with. None where that is the answer itself."""
    data = read_data(content, answer_format, path)
    again = data.written(data.value) if data else None
    return again if again != content else None


def _rounds(
    content: bytes, path: str, answer_format: OutputFormat | None, words: Vocabulary
) -> Iterator[Iterable[Mutant]]:
    data = read_data(content, answer_format, path)
    if data is not None:
        return DataMutants(data, words).rounds()
    text = _text(content)
    if text is None:
        return iter(())
    if path.endswith(".py"):
        tree = read_python(content)
        return PythonMutants(text, tree, words).rounds() if tree else iter(())
    if is_other_code(path):
        return TextCodeMutants(text, path.rpartition("/")[2], words).rounds()
    kind = answer_format or format_of(path)
    return TextMutants(text, words).rounds() if kind in ("txt", "xml", None) else iter(())


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
