"""`seatrial annotate`: verdicts are added beside the reward and never change it."""

import json

import pytest

from seatrial.model.record import TrialRecord
from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, cells
from tests.cli.job_folders import BROKEN, make_job, record


@pytest.fixture
def job(tmp_path):
    make_job(tmp_path / "job", record("volts", 0.0), record("crc", 1.0))
    return tmp_path / "job"


def test_a_verdict_is_added_and_all_are_shown(seatrial: Seatrial, job):
    before = JobStore.open(job).entries()
    seatrial("annotate", job, "volts", "--judgment", "defer", "--reviewer", "ada")
    shown = seatrial(
        *["annotate", job, "volts", "--judgment", "pass", "--reviewer", " eve ", "--discipline", "civil"],
        *["--category", "Too strict", "--category", "unit", "--notes", "right \x1b[2Jafter all"],
    )
    assert shown.code == 0
    head, _, _, first, second, *_ = shown.out.splitlines()
    assert head.endswith(": fail, reward 0")
    assert cells(first)[:2] == ["ada", "defer"]
    assert cells(second)[:3] == ["eve · civil", "pass", "too_strict, unit"]
    assert "right  [2Jafter all" in second
    assert JobStore.open(job).entries() == before
    ((_, verdicts),) = JobStore.open(job).annotations().items()
    assert [verdict.judgment.value for verdict in verdicts] == ["defer", "pass"]


def test_show_has_the_verdicts(seatrial: Seatrial, job):
    seatrial("annotate", job, "volts", "--judgment", "pass", "--reviewer", "ada", "--notes", "fine")
    lines = [cells(line)[:3] for line in seatrial("show", job, "volts").out.splitlines()]
    assert ["ada", "pass", "fine"] in lines
    assert "ada" not in seatrial("show", job, "crc").out


def test_programs_find_the_verdicts(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "job", record("volts", 0.0), record("crc", BROKEN))
    job = tmp_path / "job"
    for trial in ("volts", "crc"):
        seatrial("annotate", job, trial, "--judgment", "pass", "--reviewer", "ada")
    shown = seatrial("show", job, "volts", "--json").out
    volts, crc = json.loads(shown), json.loads(seatrial("show", job, "crc", "--json").out)
    said = TrialRecord.model_validate_json(shown).evaluation
    assert said is not None
    assert said.annotations == JobStore.open(job).annotations_of("volts.oracle.1")
    assert (crc["evaluation"], len(crc["annotations"])) == (None, 1)
    everything = json.loads(seatrial("show", job, "--json").out)["annotations"]
    assert everything == {"crc.oracle.1": crc["annotations"], "volts.oracle.1": volts["evaluation"]["annotations"]}


def test_a_damaged_line_is_a_warning(seatrial: Seatrial, job):
    (job / "annotations.jsonl").write_text("{\n")
    shown = seatrial("show", job, "volts")
    assert shown.code == 0
    assert "Warning: " in shown.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["volts", "--judgment", "great", "--reviewer", "a"], "'great' is not one of 'pass', 'fail', 'defer'"),
        (["volts", "--judgment", "pass"], "Missing option '--reviewer'"),
        (["volts", "--judgment", "pass", "--reviewer", "  "], "reviewer_id: "),
        (["volts", "--judgment", "pass", "--reviewer", "a", "--notes", "\udcff"], "notes: "),
        (["nothing", "--judgment", "pass", "--reviewer", "a"], "has no finished trial 'nothing'"),
    ],
    ids=lambda value: value[-1].encode("ascii", "replace").decode() if isinstance(value, list) else "",
)
def test_what_cannot_be_kept_is_a_usage_error(seatrial: Seatrial, job, arguments, complaint):
    shown = seatrial("annotate", job, *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert complaint in shown.err
    assert not (job / "annotations.jsonl").exists()
