"""Contents of end states that several trials have in common: on the disk once, and lost with none of them."""

import datetime as dt
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import JobError, StoreError
from seatrial.model.record import FirstVerdict, Regrade, TrialRecord
from seatrial.store.drafts import Revisions, revision_name, share_contents
from seatrial.store.job_store import JobStore
from seatrial.store.records import Records
from tests.jobs.samples import DIGEST, NOON, broken_machine, evaluation, record


def keep(folder: Path, name: str = "a" * 64, content: bytes = b"large") -> Path:
    path = folder / "snapshot.files" / f"{name}.zst"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_same_content_is_there_once_for_all_trials_and_steps(tmp_path):
    one, two, step = keep(tmp_path / "one"), keep(tmp_path / "two"), keep(tmp_path / "two/steps/first")
    other = keep(tmp_path / "two", "b" * 64)
    for trial in ("one", "two", "two"):
        share_contents(tmp_path / trial, tmp_path)
    assert one.samefile(two)
    assert one.samefile(step)
    assert not one.samefile(other)
    assert sorted(path.name for path in two.parent.iterdir()) == [one.name, other.name]
    assert one.stat().st_nlink == 4


def test_nobody_depends_on_another_or_on_the_pool(tmp_path):
    one, two = keep(tmp_path / "one"), keep(tmp_path / "two")
    for trial in ("one", "two"):
        share_contents(tmp_path / trial, tmp_path)
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "contents")
    assert two.read_bytes() == b"large"
    assert not one.exists()


def test_what_cannot_be_shared_stays_as_it_is(tmp_path):
    path = keep(tmp_path / "one")
    (tmp_path / "contents").write_text("in the way")
    share_contents(tmp_path / "one", tmp_path)
    share_contents(tmp_path / "without any", tmp_path)
    assert path.read_bytes() == b"large"
    assert path.stat().st_nlink == 1


def test_another_size_is_another_content(tmp_path):
    keep(tmp_path / "one")
    cut = keep(tmp_path / "two", content=b"la")
    for trial in ("one", "two"):
        share_contents(tmp_path / trial, tmp_path)
    assert cut.read_bytes() == b"la"


TRIAL = "add.noop.1"


def revision(number: int, reward: float, regrade: str = "r1", **changes) -> TrialRecord:
    """A trial that passed when it ran, judged again."""
    how = Regrade(
        id=regrade,
        seatrial_version="0.2",
        started_at=NOON,
        finished_at=NOON + dt.timedelta(seconds=1),
        first=FirstVerdict(outcome="pass", reward=1.0),
        task_digest=DIGEST,
    )
    values = {"revision": number, "parent": revision_name(TRIAL, number - 1), "regrade": how}
    return record(**{**values, "evaluation": evaluation(reward), **changes})


def revisions_keep(store: JobStore, *records: TrialRecord) -> None:
    for each in records:
        with store.draft(each.trial_id, each.revision) as draft:
            (draft.path / "verifier").mkdir()
            draft.commit(each)


def judged(store: JobStore) -> list[tuple[str, float | None, int]]:
    """What counts, to somebody who has just opened the job."""
    return [(each.trial_id, each.reward, each.revision) for each in JobStore.open(store.path).entries()]


def test_the_newest_revision_counts_and_the_others_stay(store):
    revisions_keep(store, record(), record("sort"), revision(1, 0.5), revision(2, 0.25))
    assert judged(store) == [(TRIAL, 0.25, 2), ("sort.noop.1", 1.0, 0)]
    assert store.record(TRIAL) == revision(2, 0.25)
    found = store.revisions(TRIAL)
    assert [each.record.revision for each in found] == [0, 1, 2]
    assert [each.folder.name for each in found] == [TRIAL, f"{TRIAL}.1", f"{TRIAL}.2"]
    assert store.next_revision(TRIAL) == 3
    assert store.next_revision("sort.noop.1") == 1


def test_the_index_saves_reading_a_revision_too(store, monkeypatch):
    revisions_keep(store, record(), revision(1, 0.5))
    monkeypatch.setattr(Records, "examine", lambda *_: pytest.fail("a record was read"))
    assert judged(store) == [(TRIAL, 0.5, 1)]
    (entry,) = JobStore.open(store.path).entries()
    assert (entry.first_outcome, entry.first_reward) == ("pass", 1.0)


def test_a_revision_that_the_index_does_not_know_counts(store):
    revisions_keep(store, record())
    before = (store.path / "index.jsonl").read_bytes()
    revisions_keep(store, revision(1, 0.5))
    (store.path / "index.jsonl").write_bytes(before)
    assert judged(store) == [(TRIAL, 0.5, 1)]


@pytest.mark.parametrize("content", [b"", b"{", b"null", None])
def test_where_the_newest_is_damaged_the_one_before_counts_and_it_is_named(store, content):
    revisions_keep(store, record(), revision(1, 0.5), revision(2, 0.25))
    damaged = store.path / f"revisions/{TRIAL}.2/record.json"
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    assert judged(store) == [(TRIAL, 0.5, 1)]
    (found,) = JobStore.open(store.path).census().uncounted
    assert (found.trial_id, found.revision, found.planned) == (TRIAL, 2, False)
    assert f"revision {TRIAL}.2 does not count" in store.explain(found)


def test_a_copy_of_a_revision_is_not_another(store):
    revisions_keep(store, record(), revision(1, 0.5))
    place = store.path / "revisions"
    (place / f"{TRIAL}.7").mkdir()
    (place / f"{TRIAL}.7/record.json").write_bytes((place / f"{TRIAL}.1/record.json").read_bytes())
    assert judged(store) == [(TRIAL, 0.5, 1)]
    assert store.next_revision(TRIAL) == 8


def test_a_number_that_nobody_counts_to_is_no_revision(store):
    revisions_keep(store, record())
    (store.path / f"revisions/{TRIAL}.{10**18}").mkdir(parents=True)
    assert (judged(store), store.next_revision(TRIAL)) == ([(TRIAL, 1.0, 0)], 1)


def test_a_link_in_the_place_of_the_folder_is_refused(store, tmp_path):
    revisions_keep(store, record())
    (store.path / "revisions").symlink_to(tmp_path)
    with pytest.raises(JobError, match="is a link"):
        store.entries()
    with pytest.raises(JobError, match="is a link"), store.draft(TRIAL, 1):
        pass


def test_a_record_of_another_revision_is_not_stored(store):
    revisions_keep(store, record())
    with pytest.raises(StoreError, match="revision 2 was given for revision 1"), store.draft(TRIAL, 1) as draft:
        draft.commit(revision(2, 0.5))
    assert judged(store) == [(TRIAL, 1.0, 0)]


def test_a_trial_that_is_run_again_takes_its_revisions_along(store):
    """Else they would speak for a trial that they never saw."""
    warned = {"code": "agent_not_started", "message": "it was not there"}
    first = TrialRecord.model_validate({**record().model_dump(), "warnings": (warned,)})
    revisions_keep(store, first, revision(1, 0.5, warnings=first.warnings))
    with store.lock():
        store.set_aside(TRIAL)
    assert (store.path / f"tries/{TRIAL}.1/revision-1/record.json").is_file()
    revisions_keep(store, record())
    assert judged(store) == [(TRIAL, 1.0, 0)]


def test_what_was_failed_and_then_judged_is_not_run_again(store):
    revisions_keep(store, record(failure=broken_machine()), revision(1, 0.5))
    with pytest.raises(JobError, match="ended as partial, which counts"), store.lock():
        store.set_aside(TRIAL)


def test_a_damaged_trial_takes_its_revisions_to_the_damaged_ones(store):
    revisions_keep(store, record(), revision(1, 0.5))
    with store.lock():
        store.set_uncounted_aside([TRIAL])
    assert len(list((store.path / "damaged").iterdir())) == 2
    assert judged(store) == []


names = st.text(st.sampled_from("ab.10-"), min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))


@given(name=names)
def test_any_name_is_a_revision_of_one_trial_or_of_none(name, tmp_path_factory):
    folder = tmp_path_factory.mktemp("revisions", numbered=True)
    (folder / name).mkdir()
    found = Revisions(folder).numbers()
    assert [revision_name(trial, number) for trial, numbers in found.items() for number in numbers] in ([], [name])


def test_a_job_that_was_never_judged_again_has_no_folder_for_it(store):
    revisions_keep(store, record())
    with store.lock():
        pass
    assert judged(store) == [(TRIAL, 1.0, 0)]
    assert not Path(store.path, "revisions").exists()
