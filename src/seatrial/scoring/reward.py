"""Which number counts: reads the reward files, applies the precedence, and says why a reward is not one.

A reward is a finite number in [0, 1]. Everything else a file may hold is told apart: an invalid reward, a sentinel
by which a verifier says it could not judge, and a file that is about something else.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Literal

from seatrial.model.artifacts import REWARD_JSON, REWARD_TXT, RawArtifacts, RawFile
from seatrial.model.output import RewardPolicy, VerdictSource, VerifierSpec
from seatrial.scoring.findings import Finding, excerpt, note
from seatrial.scoring.text import Unreadable, decode, read_exact_json

MAX_REWARD_BYTES = 2**20
_MAX_NAMED_KEYS = 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RewardFile:
    """What one file says. Exactly one of `value` and `fault` is set, unless it is not a reward file at all.

    A value is `stated` by the verifier, or a `mean` that nobody has stated.
    """

    name: str
    value: float | None = None
    fault: Finding | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Finding, ...] = ()
    kind: Literal["stated", "mean", "empty"] = "stated"

    @property
    def foreign(self) -> bool:
        """Whether the file exists and is about something else."""
        return self.value is None and self.fault is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reward that counts (None when there is none), the file that said it, and everything noticed on the way."""

    value: float | None
    file: str | None
    findings: tuple[Finding, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        """Whether there is no verdict, be it that the verifier said nothing, gave up, or wrote what is no reward.

        It makes no difference which: an agent may bring about any of them, and must not leave the mean by it.
        """
        return self.value is None


def reward_order(spec: VerifierSpec, policy: RewardPolicy = "declared") -> tuple[str, ...]:
    """The reward file names in the order in which they decide."""
    return _reward_order(spec.reward_path, policy)


@lru_cache(maxsize=64)
def _reward_order(path: str, policy: RewardPolicy) -> tuple[str, ...]:
    declared = PurePosixPath(path).name
    names = (REWARD_TXT, REWARD_JSON) if policy == "text_first" else (declared, REWARD_JSON, REWARD_TXT)
    return tuple(dict.fromkeys(names))


def read_verdict(
    raw: RawArtifacts, spec: VerifierSpec, policy: RewardPolicy = "declared", source: VerdictSource = "reward"
) -> Verdict:
    """Read every reward file and settle which one counts. Never raises on their content.

    With the source `exit_status`, the verifier's exit status is the verdict where there is no reward file.
    """
    files = map(raw.file, reward_order(spec, policy))
    found = [read_reward_file(file) for file in files if file.status != "missing"]
    extras = {key: value for file in reversed(found) for key, value in file.extras.items()}
    winner = _deciding(found)
    if raw.verifier_timed_out:
        return Verdict(None, None, (_out_of_time(winner),), extras)
    if source == "exit_status" and not found and raw.verifier_exit_code is not None:
        return _by_exit_status(raw.verifier_exit_code)
    if winner is None:
        return Verdict(None, None, (_nothing_usable(found, raw.verifier_exit_code),), extras)
    findings = [*winner.notes, *([winner.fault] if winner.fault else [])]
    findings += [_compare(winner, other) for other in found if other is not winner and other.value != winner.value]
    return Verdict(winner.value, winner.name, tuple(findings), extras)


def _deciding(found: list[RewardFile]) -> RewardFile | None:
    """The first file that says something. An empty one gives way to any other, a mean to a reward that is stated."""
    speaking = [file for file in found if not file.foreign]
    first = next((file for file in speaking if file.kind != "empty"), None)
    if first is not None and first.kind == "mean":
        return next((file for file in speaking if file.kind == "stated" and file.value is not None), first)
    return first or next(iter(speaking), None)


def _by_exit_status(exit_code: int) -> Verdict:
    value = 1.0 if exit_code == 0 else 0.0
    said = f"the verifier wrote no reward file; its exit status {exit_code} is the verdict, so {value} counts"
    return Verdict(value, None, (note(said),))


def read_reward_file(file: RawFile) -> RewardFile:
    """What one reward file says; text by the suffix .txt, JSON otherwise."""
    if file.status == "too_large" or file.size > MAX_REWARD_BYTES:
        return _invalid(file.name, f"a file of {file.size:,} bytes")
    if file.status != "ok":
        return _invalid(file.name, file.describe())
    try:
        if not file.data.strip(b"\xef\xbb\xbf \t\r\n"):
            fault = Finding("verifier_error", f"{file.name} is empty: the verifier gave up")
            return RewardFile(file.name, fault=fault, kind="empty")
        return _from_text(file) if file.name.endswith(".txt") else _from_json(file)
    except Unreadable as error:
        return _invalid(file.name, str(error))


def _from_text(file: RawFile) -> RewardFile:
    text = decode(file.data).strip()
    if not _NUMBER.fullmatch(text):
        return _invalid(file.name, f"{excerpt(text)}, which is not one number")
    return _from_number(file.name, float(text), {})


def _from_json(file: RawFile) -> RewardFile:
    value = read_exact_json(file.data)
    if _is_number(value):
        return _from_number(
            file.name, value, {}, note(f"{file.name} is a bare number, expected an object with `reward`")
        )
    if not isinstance(value, dict):
        return _invalid(file.name, _describe(value))
    return _from_object(file, value)


def _from_object(file: RawFile, value: dict[str, Any]) -> RewardFile:
    if "reward" in value:
        extras = {key: item for key, item in value.items() if key != "reward"}
        if not _is_number(value["reward"]):
            return _invalid(file.name, _describe(value["reward"]), extras)
        return _from_number(file.name, value["reward"], extras)
    numbers = [key for key, item in value.items() if _is_number(item)]
    if len(numbers) == 1:
        reason = note(f"{file.name} has no `reward`; its only number, {excerpt(numbers[0])}, counts")
        return _from_number(file.name, value[numbers[0]], value, reason)
    if numbers and all(0 <= value[key] <= 1 for key in numbers):
        return _mean(file.name, {key: value[key] for key in numbers}, value)
    return RewardFile(file.name, extras=value)


def _mean(name: str, numbers: Mapping[str, float], extras: Mapping[str, Any]) -> RewardFile:
    mean = math.fsum(numbers.values()) / len(numbers)
    reason = note(f"{name} has no `reward`; the mean {mean:g} of {_keys(numbers)} counts")
    # Rounding must not take the mean of numbers that are at most 1 beyond 1.
    return RewardFile(name, min(mean, 1.0) + 0.0, extras=extras, notes=(reason,), kind="mean")


def _keys(values: Mapping[str, Any]) -> str:
    """The first keys of an object, as they are quoted to people."""
    shown = [excerpt(key) for key, _ in zip(values, range(_MAX_NAMED_KEYS), strict=False)]
    rest = len(values) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _from_number(name: str, number: float, extras: Mapping[str, Any], *notes: Finding) -> RewardFile:
    if number == -1:
        fault = Finding("verifier_error", f"{name} says -1: the verifier could not judge")
        return RewardFile(name, fault=fault, extras=extras)
    if not 0 <= number <= 1:
        return _invalid(name, f"{number!s:.40}", extras)
    return RewardFile(name, float(number) + 0.0, extras=extras, notes=notes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {excerpt(value)}"
    return {None: "null", True: "true", False: "false"}[value]


def _invalid(name: str, found: str, extras: Mapping[str, Any] | None = None) -> RewardFile:
    fault = Finding("reward_invalid", f"{name}: found {found}; expected a number from 0 to 1")
    return RewardFile(name, fault=fault, extras=extras or {})


def _nothing_usable(foreign: list[RewardFile], exit_code: int | None) -> Finding:
    if foreign:
        named = "; ".join(f"{file.name} has the keys {_keys(file.extras) or '(none)'}" for file in foreign)
        return Finding("reward_invalid", f"{named}; expected `reward`, or numbers from 0 to 1")
    ending = "" if exit_code is None else f"; the verifier exited with {exit_code}"
    return Finding("verifier_error", f"the verifier wrote no reward file{ending}")


def _out_of_time(unfinished: RewardFile | None) -> Finding:
    said = f"; {unfinished.name} said {unfinished.value} by then" if unfinished and unfinished.value is not None else ""
    return Finding("verifier_error", f"the verifier was stopped at the end of its time{said}")


def _compare(winner: RewardFile, other: RewardFile) -> Finding:
    if other.foreign:
        return note(f"{other.name} holds no reward, so {winner.name} was read")
    if other.fault:
        return note(f"{winner.name} counts; beside it, {other.fault.message}")
    if winner.value is None:
        return note(f"{other.name} beside it says {other.value}, but {winner.name} decides")
    if other.kind == "mean":
        return note(
            f"{winner.name} states a reward, so the mean of the numbers in {other.name}, {other.value}, does not count"
        )
    said = f"{winner.name} says {winner.value}, {other.name} says {other.value}; {winner.name} counts"
    return Finding("reward_conflict", said)
