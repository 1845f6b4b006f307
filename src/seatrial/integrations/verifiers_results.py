"""verifiers' saved evaluations: a folder with `results.jsonl`, a rollout a line, and `metadata.json`.

The layouts of 0.1.9 (times in flat columns, errors as text) to 0.3.1 (times and errors as objects) are read alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import ForeignAgent, ForeignTrial, Skipped
from seatrial.integrations.reading import SourceFault, digest_of, numbered_lines, parse_object, read_object, storable
from seatrial.integrations.values import count_of, number_of, table_of, text_of
from seatrial.integrations.verifiers_rollout import Rollouts, is_rollout
from seatrial.model.imported import SourceFormat

RESULTS, METADATA = "results.jsonl", "metadata.json"


class VerifiersResults:
    """The results in a folder; metadata.json may be missing, as it is after a run that was killed."""

    format: SourceFormat = "verifiers"
    rule = "verifiers counts every rollout, and one that failed as 0"

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESULTS
        self._metadata, self._has_metadata = _read_metadata(folder)
        self.sha256 = digest_of(self._path)
        self._found: int | None = None
        self.agent = ForeignAgent("verifiers", self.version, text_of(self._metadata.get("model")))

    @property
    def version(self) -> str | None:
        """The version of verifiers, which newer ones say."""
        return text_of(table_of(self._metadata.get("version_info")).get("vf_version"))

    @property
    def stored_means(self) -> Mapping[ForeignAgent, float]:
        """The `avg_reward` of metadata.json."""
        mean = number_of(self._metadata.get("avg_reward"))
        return {} if mean is None else {self.agent: mean}

    @property
    def notes(self) -> Sequence[str]:
        """What metadata.json lacks, or counts otherwise than we do; complete once the trials were read."""
        if not self._has_metadata:
            return [f"there is no {METADATA}: model, environment and stored mean are not known"]
        found = []
        threshold = number_of(self._metadata.get("pass_threshold"))
        if self._metadata.get("pass_at_k") and threshold is not None:
            found.append(f"its pass@k counts a reward from {threshold:g} on as passed")
        examples, rollouts = (count_of(self._metadata.get(key)) for key in ("num_examples", "rollouts_per_example"))
        if examples and rollouts and self._found not in (None, examples * rollouts):
            found.append(f"{METADATA} speaks of {examples * rollouts:,} rollouts, and {RESULTS} has {self._found:,}")
        return found

    def trials(self) -> Iterator[ForeignTrial | Skipped]:
        """A trial for each line that is a rollout."""
        rollouts = Rollouts(text_of(self._metadata.get("env_id")), self.agent, self.version, RESULTS, self.sha256)
        found = 0
        for number, line in numbered_lines(self._path, self.sha256):
            place = f"{RESULTS} line {number}"
            try:
                row = _row(line)
            except SourceFault as error:
                yield Skipped(place, str(error))
            else:
                found += 1
                yield storable(partial(rollouts.trial, row, number), place)
        self._found = found


def _row(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise SourceFault("is longer than any rollout")
    row = parse_object(line)
    if not is_rollout(row):
        raise SourceFault("is no rollout: expected `example_id` and `reward` or `error`")
    return row


def _read_metadata(folder: Path) -> tuple[dict[str, Any], bool]:
    path = folder / METADATA
    if not path.exists():
        return {}, False
    try:
        return read_object(path, str(path))[0], True
    except SourceFault as error:
        raise ImportSourceError(f"{error}; mend it, or move it away to import without it") from None
