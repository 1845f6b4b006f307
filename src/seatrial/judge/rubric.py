"""Rubrics: the questions that a judge answers about a trial, and the TOML file that they are read from.

A file has keys of its own, and `[[question]]` tables. The keys of two other formats mean the same here: rewardkit's
`[judge]` and `[[criterion]]`, and `[[criteria]]` as in rubrics for verifiers. A key that nothing reads is an error
which names the one that may have been meant: a misspelt `negate` must not turn a rubric around.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import tomli
from pydantic import Field, ValidationError

from seatrial.errors import RubricError, StoreError
from seatrial.model.assessment import QuestionKind, TurnRef
from seatrial.model.base import Fraction01, NonNegative, StrictModel
from seatrial.model.evaluation import RUN_CATEGORIES, category_slug
from seatrial.untrusted.files import read_below, read_file
from seatrial.untrusted.json import Unreadable, decode, first_fault
from seatrial.verifier_kit import TAGS_KEY

EvidenceKind = Literal["output", "reference", "instruction", "conversation", "changes", "verifier", "turns"]
"""`turns` are those of the agent one by one, for questions about turns; a file cannot ask for them."""

Rollup = Literal["weighted_mean", "min"]
Combine = Literal["majority", "median", "mean"]
Mode = Literal["individual", "batched"]

IMPORTANCE: Mapping[str, float] = {"essential": 1.0, "important": 0.7, "optional": 0.3}
ADDRESSES_EVALUATOR = "addresses_evaluator"
_RESERVED = (ADDRESSES_EVALUATOR, TAGS_KEY, "confidence")

_Model = TypeVar("_Model", bound=StrictModel)
_MOST_BYTES = 2**20
_MOST_QUESTIONS = 200
_AGENTS = ("claude-code", "codex", "gemini-cli", "opencode", "openhands")


class Option(StrictModel):
    """What a judge may choose: an option of a choice, or a label. Only options have a score."""

    name: Annotated[str, Field(min_length=1)]
    text: str = ""
    score: Fraction01 | None = None
    action: str | None = None
    """What to do where a label applies."""


class Question(StrictModel):
    """One question."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$")]
    text: Annotated[str, Field(min_length=1)]
    kind: QuestionKind = "yes_no"
    weight: NonNegative = 1.0
    negate: bool = False
    """A yes, or a high number, is bad."""

    optional: bool = False
    """If it is unscored, the assessment has a score without it."""

    options: tuple[Option, ...] = ()
    minimum: float = 0.0
    maximum: float = 1.0
    whole: bool = False
    """Only whole numbers."""

    tag: str | None = None
    """The category of a tag, given when the question scores nothing."""

    evidence: tuple[EvidenceKind, ...] | None = None
    """What the judge may see for it; None for what the rubric has."""

    files: tuple[str, ...] = ()
    """Patterns of output files that the judge may see for it; none for those of the rubric."""

    open: bool = False
    """A judge may give labels of its own beside those that are listed."""

    confidence: bool = False
    """The judge is asked how sure it is, too."""

    turn: TurnRef | None = None
    """The turn that it is about; `files` are then the names of the turns that the judge sees."""

    @property
    def scored(self) -> bool:
        """Whether it can enter the score."""
        return self.weight > 0 and self.kind != "labels"


class Rubric(StrictModel):
    """A rubric as read."""

    name: Annotated[str, Field(min_length=1)]
    questions: Annotated[tuple[Question, ...], Field(min_length=1)]
    persona: str = ""
    template: str = ""
    """Instructions of the author's own; `{criteria}` in them is the place of the questions."""

    rollup: Rollup = "weighted_mean"
    combine: Combine = "majority"
    mode: Mode = "individual"
    samples: Annotated[int, Field(ge=1, le=100)] = 1
    models: tuple[str, ...] = ()
    evidence: tuple[EvidenceKind, ...] = ("output", "instruction")
    files: tuple[str, ...] = ()
    """Patterns of output files; none for the output that the task declares, and for what agents publish."""

    references: tuple[str, ...] = ()
    """Files beside the rubric that the judge sees and the agent never did."""

    guard: bool = True
    temperature: NonNegative | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    timeout_sec: Annotated[float, Field(gt=0)] = 120.0
    notes: tuple[str, ...] = ()
    """What of the file has no effect here."""

    per_turn: str = ""
    """For a rubric that asks one question of each turn: its digest before there was a question for each."""

    @property
    def digest(self) -> str:
        """Of all that decides what is asked and what an answer is worth, whoever is asked, and how often."""
        if self.per_turn:
            return self.per_turn
        said = self.model_dump_json(exclude={"models", "samples", "notes", "timeout_sec"})
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def all_files(self) -> tuple[str, ...]:
        """The patterns of all output files that any question may see."""
        return tuple(dict.fromkeys([*self.files, *(each for one in self.questions for each in one.files)]))

    @property
    def all_evidence(self) -> frozenset[EvidenceKind]:
        """All kinds of evidence that any question may see."""
        return frozenset(kind for one in self.questions for kind in self.evidence_of(one))

    def evidence_of(self, question: Question) -> tuple[EvidenceKind, ...]:
        """What a judge may see for a question; references and output files that it names are always among it."""
        kinds = self.evidence if question.evidence is None else question.evidence
        named = (*(("output",) if question.files else ()), *(("reference",) if self.references else ()))
        return tuple(dict.fromkeys((*kinds, *named)))

    def question(self, wanted: str) -> Question:
        return next(each for each in self.questions if each.id == wanted)


def load_rubric(path: Path, name: str | None = None) -> Rubric:
    """The rubric in a file, called `name` or as the file is unless it says so itself.

    Raises RubricError that names the file, the key and what was expected.
    """
    try:
        content = read_file(path, _MOST_BYTES)
    except OSError as error:
        raise RubricError("unreadable", f"{path}: cannot be read: {error.strerror or error}") from None
    template = ""
    rubric = parse_rubric(content, str(path), name or path.stem)
    if rubric.template:
        place = path.parent / rubric.template
        try:
            # Only from beside the rubric: a stranger's names no other file of this machine.
            template = decode(read_below(place, path.parent, _MOST_BYTES))
        except (StoreError, Unreadable) as error:
            raise RubricError("unreadable", f"{path}: prompt_template: {error}") from None
    return rubric.model_copy(update={"template": template})


def parse_rubric(content: bytes, where: str, name: str = "rubric") -> Rubric:
    """The rubric that a file says, whose `template` is still a path. `where` names the file in errors."""
    try:
        table = tomli.loads(decode(content))
    except (ValueError, RecursionError) as error:
        raise RubricError("unreadable", f"{where}: is not TOML: {error}") from None
    return _Reader(where).rubric(table, name)


# Keys, in our words. Each format's own words for them lead to these.

_RUBRIC_KEYS: Mapping[str, str] = {
    "aggregation": "rollup",
    "batch": "mode",
    "combine": "combine",
    "evidence": "evidence",
    "files": "files",
    "guard": "guard",
    "judge": "models",
    "max_tokens": "max_tokens",
    "mode": "mode",
    "model": "models",
    "models": "models",
    "name": "name",
    "persona": "persona",
    "prompt_template": "template",
    "reference": "references",
    "references": "references",
    "rollup": "rollup",
    "samples": "samples",
    "temperature": "temperature",
    "timeout": "timeout_sec",
}
_NO_EFFECT: Mapping[str, str] = {
    "cwd": "a judge here runs no program",
    "isolated": "a judge here runs no program",
    "reasoning_effort": "the provider's default is used",
}
_QUESTION_KEYS: Mapping[str, str] = {
    "category": "weight",
    "criterion": "text",
    "description": "text",
    "evidence": "evidence",
    "files": "files",
    "id": "id",
    "importance": "weight",
    "kind": "kind",
    "labels": "options",
    "levels": "options",
    "max": "maximum",
    "min": "minimum",
    "name": "id",
    "negate": "negate",
    "open": "open",
    "optional": "optional",
    "options": "options",
    "ordered": "ordered",
    "points": "points",
    "requirement": "text",
    "tag": "tag",
    "text": "text",
    "title": "id",
    "type": "kind",
    "weight": "weight",
}
_KINDS: Mapping[str, str] = {
    "binary": "yes_no",
    "boolean": "yes_no",
    "likert": "likert",
    "numeric": "number",
    "rubric": "levels",
    "yes/no": "yes_no",
    **{kind: kind for kind in get_args(QuestionKind)},
}
_TABLES = ("question", "criterion", "criteria")
_SECTIONS = ("judge", "scoring")


class _Reader:
    """Reads one file; every error names it."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._notes: list[str] = []

    def rubric(self, table: Mapping[str, Any], name: str) -> Rubric:
        given = [key for key in _TABLES if key in table]
        if len(given) != 1:
            found = "none of them" if not given else " and ".join(f"[[{key}]]" for key in given)
            raise self._error("no_questions", f"expected questions as [[question]] tables, found {found}")
        tables = table[given[0]]
        if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
            raise self._error("no_questions", f"{given[0]}: expected one [[{given[0]}]] table or more")
        if len(tables) > _MOST_QUESTIONS:
            raise self._error("bad_value", f"{given[0]}: there are {len(tables):,}, expected up to {_MOST_QUESTIONS}")
        values: dict[str, Any] = {"name": name}
        if given[0] == "criterion":
            values["mode"] = "batched"  # as rewardkit does without being told
        own = {key: value for key, value in table.items() if key not in (given[0], *_SECTIONS)}
        for section, part in (("", own), *((key, table.get(key, {})) for key in _SECTIONS)):
            if not isinstance(part, dict) and section == "judge":
                part = {"judge": part}  # noqa: PLW2901 - the model alone
            if not isinstance(part, dict):
                raise self._error("bad_value", f"[{section}]: expected a table, found {part!r:.60}")
            values |= self._settings(section, part)
        values["questions"] = tuple(self._question(each, number) for number, each in enumerate(tables, 1))
        self._check_ids([each.id for each in values["questions"]])
        return self._made(Rubric, {**values, "notes": tuple(self._notes)}, "")

    def _settings(self, section: str, table: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        begin = f"[{section}] " if section else ""
        for key, value in table.items():
            if key in _NO_EFFECT:
                self._notes.append(f"{begin}{key} has no effect: {_NO_EFFECT[key]}")
                continue
            target = self._known(key, _RUBRIC_KEYS, begin)
            if target == "models":
                values["models"] = (*values.get("models", ()), *self._models(key, value))
            elif target in ("files", "references", "evidence"):
                values[target] = self._evidence(f"{begin}{key}", value)
            elif target == "rollup":
                values[target] = str(value).replace("-", "_")
            elif target == "timeout_sec":
                values[target] = float(value) if isinstance(value, int | float) else value
            else:
                values[target] = value
        return values

    def _models(self, key: str, value: Any) -> tuple[str, ...]:
        names = self._names(key, value)
        if agents := [name for name in names if name in _AGENTS]:
            self._notes.append(f"{key} = {agents[0]!r} is an agent; judges here are models, so it names none")
        return tuple(name for name in names if name not in agents)

    def _question(self, table: Mapping[str, Any], number: int) -> Question:
        place = f"question {number}: "
        values: dict[str, Any] = {}
        for key, value in table.items():
            target = self._known(key, _QUESTION_KEYS, place)
            if target in values and target != "weight":
                raise self._error("bad_value", f"{place}{key}: says again what another key says")
            values[target] = value
        if "text" not in values and "id" in values:
            values["text"] = values["id"]  # rubrics of titles alone
            del values["id"]
        if "text" not in values:
            raise self._error("bad_value", f"{place}it has no `text`, which is what the judge is asked")
        values["id"] = _slug(values.get("id"), number)
        place = f"question {values['id']!r}: "
        values["weight"], values["negate"] = self._weight(values, place)
        values |= self._scale(values, place)
        for key in ("files", "evidence"):
            if key in values:
                values[key] = self._evidence(f"{place}{key}", values[key])
        tags = [values.get("tag"), *(each.name for each in values.get("options", ()) if values["kind"] == "labels")]
        if empty := [tag for tag in tags if tag is not None and not category_slug(str(tag))]:
            raise self._error("bad_value", f"{place}the tag {empty[0]!r} has no word in it")
        if taken := [tag for tag in tags if category_slug(str(tag)) in RUN_CATEGORIES]:
            raise self._error("bad_value", f"{place}{taken[0]!r} is a category that only a run itself can find")
        return self._made(Question, values, place)

    def _weight(self, values: Mapping[str, Any], place: str) -> tuple[float, bool]:
        """The weight, and whether to negate: points below zero are for what must not be."""
        weight, negate = values.get("weight", 1.0), values.get("negate", False)
        if "points" in values and "weight" not in values and _KINDS.get(str(values.get("kind"))) != "likert":
            weight = values["points"]
        if isinstance(weight, str):
            if weight.lower() not in IMPORTANCE:
                expected = ", ".join(IMPORTANCE)
                raise self._error(
                    "bad_value", f"{place}weight: {weight!r} is unknown; expected a number, or {expected}"
                )
            weight = IMPORTANCE[weight.lower()]
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise self._error("bad_value", f"{place}weight: found {weight!r}, expected a number")
        if not isinstance(negate, bool):
            raise self._error("bad_value", f"{place}negate: found {negate!r}, expected true or false")
        return abs(float(weight)), negate != (weight < 0)

    def _scale(self, values: dict[str, Any], place: str) -> dict[str, Any]:
        """The kind, and the answers that it allows."""
        named = values.get("kind", "choice" if "options" in values else "number" if "maximum" in values else "yes_no")
        kind = _KINDS.get(str(named))
        if kind is None:
            near = get_close_matches(str(named), _KINDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise self._error("bad_value", f"{place}kind: {named!r} is unknown; there are {', '.join(_KINDS)}{hint}")
        ordered, points = values.pop("ordered", kind == "levels"), values.pop("points", 5)
        if kind == "likert":
            if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= 100:
                raise self._error("bad_value", f"{place}points: found {points!r}, expected a whole number, 2 to 100")
            return {"kind": "number", "minimum": 1.0, "maximum": float(points), "whole": True}
        if kind == "number":
            return {"kind": kind, **self._range(values, place)}
        if kind in ("choice", "levels", "labels"):
            options = self._options(values.get("options"), place, ordered=bool(ordered), scored=kind != "labels")
            return {"kind": "choice" if kind == "levels" else kind, "options": options}
        return {"kind": kind}

    def _range(self, values: Mapping[str, Any], place: str) -> dict[str, float]:
        low, high = values.get("minimum", 0.0), values.get("maximum", 1.0)
        for each in (low, high):
            if isinstance(each, bool) or not isinstance(each, int | float) or not math.isfinite(each):
                raise self._error("bad_value", f"{place}min and max: found {each!r}, expected a number")
        if low >= high:
            raise self._error("bad_value", f"{place}min is {low:g} and max is {high:g}, expected min below max")
        return {"minimum": float(low), "maximum": float(high)}

    def _options(self, given: Any, place: str, *, ordered: bool, scored: bool) -> tuple[Option, ...]:
        """Options from a list of names, worst first where they are ordered; from tables; or from a table of scores."""
        if isinstance(given, dict):
            given = [{"name": str(name), **_described(value)} for name, value in given.items()]
        least = 2 if scored else 1
        if not isinstance(given, list) or len(given) < least:
            raise self._error(
                "bad_value", f"{place}options: expected a list of {'two or more' if scored else 'labels'}"
            )
        tables: list[Any] = [{"name": each} if isinstance(each, str) else each for each in given]
        made: list[dict[str, Any]] = []
        for at, each in enumerate(tables):
            if not isinstance(each, dict):
                raise self._error("bad_value", f"{place}options: found {each!r:.60}, expected a name or a table")
            each = {("text" if key == "description" else key): value for key, value in each.items()}  # noqa: PLW2901
            each.setdefault("name", _slug(each.get("text"), at + 1))
            if isinstance(each.get("score"), int) and not isinstance(each.get("score"), bool):
                each["score"] = float(each["score"])
            made.append(each)
        self._score(made, place, ordered=ordered, scored=scored)
        options = tuple(self._made(Option, each, f"{place}options: ") for each in made)
        if len({option.name for option in options}) < len(options):
            raise self._error("bad_value", f"{place}options: a name is there twice")
        return options

    def _score(self, options: list[dict[str, Any]], place: str, *, ordered: bool, scored: bool) -> None:
        """Scores for options without: even steps for ordered ones. Scores on a scale of their own become 0 to 1."""
        given = [each["score"] for each in options if isinstance(each.get("score"), float)]
        if not scored:
            return
        if not given and ordered:
            for at, each in enumerate(options):
                each["score"] = at / (len(options) - 1)
        elif len(given) < len(options):
            raise self._error("bad_value", f"{place}options: give each a score, or write `ordered = true`, worst first")
        elif max(given) > 1.0 and min(given) >= 0.0:
            for each in options:
                each["score"] /= max(given)

    def _known(self, key: str, known: Mapping[str, str], place: str) -> str:
        if key in known:
            return known[key]
        near = get_close_matches(key, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
        raise self._error("unknown_key", f"{place}there is no key {key!r}{hint}")

    def _names(self, place: str, value: Any) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
            raise self._error("bad_value", f"{place}: found {value!r:.60}, expected a name or a list of names")
        return tuple(names)

    def _evidence(self, place: str, value: Any) -> tuple[str, ...]:
        names = self._names(place, value)
        if place.endswith("evidence") and "turns" in names:
            raise self._error("bad_value", f'{place}: only `seatrial classify` shows turns; use "conversation"')
        return names

    def _check_ids(self, ids: Sequence[str]) -> None:
        for name in ids:
            if name in _RESERVED:
                raise self._error("duplicate_question", f"a question cannot have the id {name!r}, which is taken")
            if ids.count(name) > 1:
                raise self._error("duplicate_question", f"two questions have the id {name!r}; give each its own `id`")

    def _made(self, kind: type[_Model], values: Mapping[str, Any], place: str) -> _Model:
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            raise self._error("bad_value", f"{place}{first_fault(error)}") from None

    def _error(self, code: str, message: str) -> RubricError:
        return RubricError(code, f"{self._where}: {message}")


def _described(value: Any) -> dict[str, Any]:
    """A value of a table of options: its score, or what it means."""
    if isinstance(value, dict):
        return dict(value)
    return {"text": value} if isinstance(value, str) else {"score": value}


def _slug(given: Any, number: int) -> str:
    """An id from what the file names a question; by its number where that says nothing usable."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in str(given or "").lower())
    name = "_".join(filter(None, kept.split("_")))[:60].strip("_")
    return name or f"q{number}"


# Vocabularies: rubrics with one question, whose labels are categories of failures.

_VOCABULARIES = Path(__file__).parent / "vocabularies"


def vocabularies() -> dict[str, Path]:
    """The vocabularies that come with Seatrial, by their names."""
    return {path.stem: path for path in sorted(_VOCABULARIES.glob("*.toml"))}


def find_vocabulary(name: str) -> Path:
    """The file of a vocabulary, named by itself or by a file of the user's. Raises RubricError."""
    known = vocabularies()
    if name in known or Path(name).exists():
        return known.get(name, Path(name))
    raise RubricError("unreadable", f"there is no vocabulary {name!r}; expected a file, or {', '.join(known)}")


@cache
def known_actions() -> Mapping[str, str]:
    """What to do about a category, by the vocabularies that come with Seatrial."""
    every = (
        option for path in vocabularies().values() for each in load_rubric(path).questions for option in each.options
    )
    return {category_slug(option.name): option.action for option in every if option.action}
