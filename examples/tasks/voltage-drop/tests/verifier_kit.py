"""Seatrial verifier kit: copy this one file into tests/, import it from your verifier.

It compares numbers with tolerance and units, finds the last JSON block of a report, rolls dimensions up into one
reward, and writes reward.json and details.json atomically. It needs nothing but the Python standard library (3.8+).

    import verifier_kit as kit

    def judge():
        answer = kit.last_json_block(kit.read_text("/workspace/report.md"))
        kit.require_keys(answer, ["drop_v"])
        return [kit.compare("drop_v", answer["drop_v"], 4.2, rel=0.02, unit="V")]

    kit.run(judge)

What the agent did wrong is a reward (0.0 with a reason); a mistake in the verifier itself stays a crash with a
traceback and no reward file, so that it can never pass for a failed agent.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from fractions import Fraction
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, NoReturn, Sequence  # noqa: UP035 - runs on 3.8

LOGS = "/logs/verifier"
STRATEGIES = ("weighted_mean", "min", "all_pass", "any_pass", "threshold", "geometric_mean")
TAGS_KEY = "error_taxonomy"

MAX_OUTPUT_BYTES = 64 * 2**20
_HUGE = 1e300
_CLOSE = Fraction(1, 10**9)  # what numbers that are not exact may lack of a 1 or of a threshold
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PREFIXES = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "k": 1e3, "M": 1e6, "G": 1e9}
# Each unit as (dimension, factor to that dimension's base unit); the first row takes the prefixes above.
_PREFIXED = {unit: (unit, 1.0) for unit in ("V", "A", "W", "Hz", "N", "Pa", "J", "m", "s", "F", "H", "VA", "Nm", "K")}
_PREFIXED.update({"ohm": ("ohm", 1.0), "Ω": ("ohm", 1.0), "g": ("kg", 1e-3), "bar": ("Pa", 1e5), "L": ("m3", 1e-3)})
_UNITS = {
    "": ("", 1.0), "%": ("", 0.01), "in": ("m", 0.0254), "ft": ("m", 0.3048), "mi": ("m", 1609.344),
    "lb": ("kg", 0.45359237), "t": ("kg", 1000.0), "psi": ("Pa", 6894.757293168), "min": ("s", 60.0),
    "h": ("s", 3600.0), "Wh": ("J", 3600.0), "kWh": ("J", 3.6e6), "deg": ("rad", math.pi / 180), "rad": ("rad", 1.0),
    "m/s": ("m/s", 1.0), "km/h": ("m/s", 1 / 3.6), "m2": ("m2", 1.0), "mm2": ("m2", 1e-6), "m3": ("m3", 1.0),
}  # fmt: skip


class KitError(ValueError):
    """The verifier used the kit wrongly; `code` is stable, the message names the thing."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OutputProblem(Exception):
    """The agent's output cannot be judged: `run` turns it into a reward of 0.0 with this category and reason."""

    def __init__(self, category: str, reason: str) -> None:
        super().__init__(reason)
        self.category = category


class Dimension(NamedTuple):
    """One thing that is scored: `score` out of `max_score`, with its weight and the evidence for it."""

    name: str
    score: float
    max_score: float = 1.0
    weight: float = 1.0
    evidence: str = ""
    expected: Any = None
    actual: Any = None


def check(name: str, passed: bool, evidence: str = "", weight: float = 1.0) -> Dimension:  # noqa: FBT001 - `check(name, passed)` reads well in a verifier
    """A dimension that is either right or wrong."""
    return Dimension(name, 1.0 if passed else 0.0, weight=weight, evidence=evidence)


def share(name: str, wrong: Sequence[str], total: int, weight: float = 1.0) -> Dimension:
    """A dimension that counts cases: `wrong` says of each wrong one, out of `total`, what is wrong with it."""
    evidence = f"{len(wrong)} of {total} wrong: {'; '.join(wrong[:3])}" if wrong else f"all {total} right"
    return Dimension(name, total - len(wrong), total, weight, evidence)


def compare(  # noqa: PLR0913 - the keywords read like a sentence where it is called
    name: str,
    actual: Any,
    expected: float,
    *,
    rel: float = 0.0,
    abs: float = 0.0,  # noqa: A002 - the word everyone looks for
    unit: str = "",
    weight: float = 1.0,
) -> Dimension:
    """Full score when `actual` is within `rel` (a share of `expected`) or `abs`, whichever allows more.

    `actual` is a number in `unit`, or text such as "12.5 mV" that is converted to it first.
    """
    margin = max(abs, rel * math.fabs(expected))
    wanted = f"expected {expected:g}{' ' + unit if unit else ''} ± {margin:g}"
    try:
        value = quantity(actual, unit)
    except OutputProblem as problem:
        return Dimension(name, 0.0, 1.0, weight, f"{problem}; {wanted}", expected, _shown(actual))
    passed = math.fabs(value - expected) <= margin + 1e-12 * math.fabs(expected)
    return Dimension(name, 1.0 if passed else 0.0, 1.0, weight, f"found {value:g}, {wanted}", expected, value)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):  # an integer too long to print, a list too deep
        return f"a {type(value).__name__} too large to show"


def quantity(value: Any, unit: str = "") -> float:
    """`value` as a number of `unit`; a bare number is taken to be in it already. Raises OutputProblem."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not -_HUGE < value < _HUGE:  # a comparison, because math.isfinite fails on very large integers
            raise OutputProblem("not_a_number", f"found {_shown(value)}, which is no usable number")
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    match = _NUMBER.match(text)
    if not match:
        raise OutputProblem("not_a_number", f"found {_shown(value)}, which is not a number")
    number, written = float(match.group()), text[match.end() :].strip()
    if written and written != unit:
        number *= _factor(written, unit)
    return quantity(number)


def _factor(written: str, unit: str) -> float:
    found, wanted = _lookup(written), _lookup(unit)
    if wanted is None:
        raise KitError("unknown_unit", f"unit {unit!r} is not in the kit; give the expected value in a known unit")
    if found is None or found[0] != wanted[0]:
        raise OutputProblem("unit_mismatch", f"found the unit {written!r:.60}, which does not convert to {unit!r}")
    return found[1] / wanted[1]


def _lookup(unit: str) -> tuple[str, float] | None:
    known = _UNITS.get(unit) or _PREFIXED.get(unit)
    if known or unit[:1] not in _PREFIXES or unit[1:] not in _PREFIXED:
        return known
    dimension, factor = _PREFIXED[unit[1:]]
    return dimension, _PREFIXES[unit[0]] * factor


def require_keys(mapping: Any, keys: Iterable[str]) -> None:
    """Raise OutputProblem unless `mapping` is an object that has every key."""
    if not isinstance(mapping, dict):
        raise OutputProblem("schema_mismatch", f"expected an object with named keys, found {type(mapping).__name__}")
    missing = [key for key in keys if key not in mapping]
    if missing:
        raise OutputProblem("schema_mismatch", f"missing keys: {', '.join(missing)}")


class Block(NamedTuple):
    """A fenced block of a Markdown text; `line` is the number of its first line inside the fence."""

    info: str
    body: str
    line: int


def fenced_blocks(text: str) -> List[Block]:  # noqa: UP006 - runs on 3.8
    """The fenced blocks of a Markdown text in order; an unclosed one runs to the end."""
    blocks: list[Block] = []
    body: list[str] = []
    fence, info, start = "", "", 0
    # Not splitlines, which also splits at characters that may stand in the middle of a JSON text.
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        stripped = line.strip()
        if not fence:
            run = len(stripped) - len(stripped.lstrip(stripped[:1])) if stripped[:1] in ("`", "~") else 0
            if run >= 3 and not (stripped[0] == "`" and "`" in stripped[run:]):
                fence, info, start, body = stripped[:run], stripped[run:].strip(), number + 1, []
        elif stripped.startswith(fence) and not stripped.strip(fence[0]):
            blocks.append(Block(info, "\n".join(body), start))
            fence = ""
        else:
            body.append(line)
    if fence:
        blocks.append(Block(info, "\n".join(body).rstrip("\n"), start))
    return blocks


def json_blocks(text: str) -> List[Block]:  # noqa: UP006 - runs on 3.8
    """The fenced blocks that are meant as JSON: marked so, or unmarked and opening with a bracket."""
    return [
        block
        for block in fenced_blocks(text)
        if block.info.lower().startswith("json") or (not block.info and block.body.lstrip()[:1] in ("{", "["))
    ]


def last_json_block(text: str) -> Any:
    """The value of the last fenced JSON block. Raises OutputProblem when there is none or it does not parse."""
    blocks = json_blocks(text)
    if not blocks:
        raise OutputProblem("unparseable", "the report has no fenced JSON block")
    return parse_json(blocks[-1].body, f"the JSON block at line {blocks[-1].line}")


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text; `where` names it in the OutputProblem raised when it does not parse."""

    def refuse(constant: str) -> NoReturn:
        raise OutputProblem("unparseable", f"{where} holds {constant}, which is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise OutputProblem("unparseable", f"{where} is not JSON: {error}") from None


def path(absolute: str) -> str:
    """Where `absolute` is; KIT_ROOT moves everything below another folder, to try a verifier outside a sandbox."""
    return os.environ.get("KIT_ROOT", "") + absolute


def _open_without_waiting(name: str, flags: int) -> int:
    # An agent may leave a pipe where a file should be; without O_NONBLOCK, opening it would wait for ever.
    return os.open(name, flags | os.O_NONBLOCK)


def read_text(absolute: str) -> str:
    """The agent's file as text. Raises OutputProblem when it is missing or not UTF-8."""
    try:
        with open(path(absolute), "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OutputProblem("no_output", f"{absolute}: not a regular file")
            data = file.read(MAX_OUTPUT_BYTES + 1)
        if len(data) > MAX_OUTPUT_BYTES:
            raise OutputProblem("unparseable", f"{absolute} has more than {MAX_OUTPUT_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise OutputProblem("no_output", f"{absolute}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise OutputProblem("unparseable", f"{absolute} is not UTF-8 text: {error.reason} at {error.start}") from None


def read_json(absolute: str) -> Any:
    """The agent's JSON file. Raises OutputProblem when it is missing or does not parse."""
    return parse_json(read_text(absolute), absolute)


def roll_up(
    dimensions: Sequence[Dimension],
    strategy: str = "weighted_mean",
    *,
    threshold: float = 0.5,
    names: Iterable[str] | None = None,
) -> float:
    """One reward in [0, 1], rounded to 4 decimals, but never up to 1. Raises KitError for anything that makes no sense.

    Each dimension counts as score / max_score, clamped to [0, 1]; one of weight 0 is reported but does not count.
    `threshold` gives 1.0 when the weighted mean reaches it; `names`, when given, is the exact set to expect.
    """
    if strategy not in STRATEGIES:
        raise KitError("unknown_strategy", f"unknown strategy {strategy!r}, expected one of {', '.join(STRATEGIES)}")
    _check_names([dimension.name for dimension in dimensions], names)
    # Exact arithmetic: the order of dimensions or the scale of weights can then never tip a rounding.
    pairs = [pair for pair in map(_normalise, dimensions) if pair[1] > 0]
    if not pairs:
        raise KitError("bad_weight", "every weight is zero, expected at least one above it")
    total = sum((weight for _, weight in pairs), Fraction(0))
    mean = sum((value * weight for value, weight in pairs), Fraction(0)) / total
    values = [value for value, _ in pairs]
    rollups: dict[str, Callable[[], float]] = {
        "weighted_mean": lambda: _rounded(mean),
        "min": lambda: _rounded(min(values)),
        "all_pass": lambda: float(min(values) == 1),
        "any_pass": lambda: float(max(values) == 1),
        "threshold": lambda: float(mean + _CLOSE >= _threshold(threshold)),
        "geometric_mean": lambda: _rounded(Fraction(_geometric_mean(pairs, total))),
    }
    return rollups[strategy]()


def _rounded(reward: Fraction) -> float:
    return float(round(reward, 4)) if reward + _CLOSE >= 1 else min(float(round(reward, 4)), 0.9999)


def _threshold(value: Any) -> Fraction:
    threshold = _finite(value, "threshold")
    if not 0 <= threshold <= 1:
        raise KitError("bad_threshold", f"threshold is {value}, expected 0 to 1")
    return threshold


def _check_names(found: Sequence[str], names: Iterable[str] | None) -> None:
    expected = found if names is None else list(names)
    complaints = {
        "duplicate_dimension": ("given more than once", {name for name in found if found.count(name) > 1}),
        "unknown_dimension": (f"unknown, expected {', '.join(expected)}", set(found) - set(expected)),
        "missing_dimension": ("without a score", set(expected) - set(found)),
    }
    for code, (what, culprits) in complaints.items():
        if culprits:
            raise KitError(code, f"dimension {', '.join(map(repr, sorted(culprits)))}: {what}")
    if not found:
        raise KitError("no_dimensions", "there is no dimension to score")


def _normalise(dimension: Dimension) -> tuple[Fraction, Fraction]:
    name = dimension.name
    score = _finite(dimension.score, f"score of {name!r}")
    max_score = _finite(dimension.max_score, f"max_score of {name!r}")
    weight = _finite(dimension.weight, f"weight of {name!r}")
    if max_score <= 0:
        raise KitError("bad_max_score", f"max_score of {name!r} is {dimension.max_score}, expected more than 0")
    if weight < 0:
        raise KitError("bad_weight", f"weight of {name!r} is {dimension.weight}, expected 0 or more")
    return min(max(score / max_score, Fraction(0)), Fraction(1)), weight


def _finite(value: Any, what: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_HUGE < value < _HUGE:
        raise KitError("not_finite", f"{what} is {_shown(value)}, expected a finite number")
    return Fraction(value)


def _geometric_mean(pairs: Sequence[tuple[Fraction, Fraction]], total: Fraction) -> float:
    if any(value == 0 for value, _ in pairs):
        return 0.0
    # The logarithm of a share too small for a float is still a float.
    logs = ((math.log(value.numerator) - math.log(value.denominator), weight) for value, weight in pairs)
    mean = math.fsum(log * float(weight / total) for log, weight in logs)
    return min(max(math.exp(mean), 0.0), 1.0)


def details_of(dimensions: Iterable[Dimension]) -> dict[str, Any]:
    """The dimensions as details.json holds them: an object per dimension, without the fields nobody set."""
    rows = ((dimension.name, dimension._asdict()) for dimension in dimensions)
    return {
        name: {key: value for key, value in row.items() if key != "name" and value is not None} for name, row in rows
    }


def write_verdict(reward: float, details: Mapping[str, Any] | None = None) -> None:
    """Write details.json, then reward.json, each whole or not at all. Raises KitError for a reward outside [0, 1]."""
    if not 0 <= _finite(reward, "reward") <= 1:
        raise KitError("bad_reward", f"reward is {reward}, expected 0 to 1")
    os.makedirs(path(LOGS), exist_ok=True)  # noqa: PTH103 - paths are plain text throughout this file
    if details is not None:
        _write("details.json", details)
    _write("reward.json", {"reward": reward})


def _write(name: str, value: Any) -> None:
    target = f"{path(LOGS)}/{name}"
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    with open(f"{target}.part", "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{target}.part", target)  # noqa: PTH105 - as above


def run(judge: Callable[[], Sequence[Dimension]], strategy: str = "weighted_mean", *, threshold: float = 0.5) -> None:
    """Judge and write the verdict. An OutputProblem is a reward of 0.0; any other exception is left to crash."""
    for name in ("reward.json", "reward.txt", "details.json"):
        if os.path.lexists(f"{path(LOGS)}/{name}"):
            os.remove(f"{path(LOGS)}/{name}")  # noqa: PTH107 - a verdict of an earlier run must not survive a crash
    try:
        dimensions = list(judge())
    except OutputProblem as problem:
        write_verdict(0.0, {TAGS_KEY: [{"category": problem.category, "description": str(problem)}]})
        return
    write_verdict(roll_up(dimensions, strategy, threshold=threshold), details_of(dimensions))
