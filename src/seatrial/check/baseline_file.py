"""A baseline: findings that are known, so that they fail no build again. Only new ones do."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from seatrial.check.grade import regraded
from seatrial.errors import UsageError
from seatrial.model.base import StrictModel, to_json
from seatrial.model.check import TaskCheck
from seatrial.store.files import read_plain, replace_file, storing

_MOST_BYTES = 64 * 2**20


class CheckBaseline(StrictModel):
    """The ids of known findings, by task."""

    schema_version: int = Field(default=1, ge=1, le=1)
    known: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def marked(self, check: TaskCheck) -> TaskCheck:
        """A result in which findings that are known do not count."""
        known = frozenset(self.known.get(check.task, ()))
        if not known:
            return check
        findings = [each.model_copy(update={"known": each.id in known}) for each in check.findings]
        return regraded(check, findings)

    def gone(self, checks: Iterable[TaskCheck]) -> Mapping[str, tuple[str, ...]]:
        """What is known and was not found any more, by task; only of what was looked at as a whole."""
        left = {check.task: tuple(sorted(self._gone_from(check))) for check in checks if check.grade}
        return {task: ids for task, ids in left.items() if ids}

    def _gone_from(self, check: TaskCheck) -> set[str]:
        done = {each.check for each in check.outcomes if each.status in ("passed", "failed") and not each.left_out}
        known = {each for each in self.known.get(check.task, ()) if each.partition("/")[0] in done}
        return known - {finding.id for finding in check.findings}


def read_baseline(path: Path) -> CheckBaseline:
    """A baseline that was written. Raises UsageError for a file that is none."""
    try:
        return CheckBaseline.model_validate_json(read_plain(path, _MOST_BYTES))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{path}: the baseline cannot be read: {why}; --write-baseline {path} makes one") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        why = f"{where}: {problem['msg']}" if where else problem["msg"]
        raise UsageError(f"{path}: not a baseline of findings: {why}; --write-baseline {path} makes one") from error


def write_baseline(path: Path, checks: Iterable[TaskCheck]) -> int:
    """Make a baseline of all that is found now and not accepted; returns how many findings it has."""
    known = {
        check.task: tuple(sorted(finding.id for finding in check.findings if not finding.accepted)) for check in checks
    }
    baseline = CheckBaseline(known={task: ids for task, ids in sorted(known.items()) if ids})
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, to_json(baseline))
    return sum(map(len, baseline.known.values()))
