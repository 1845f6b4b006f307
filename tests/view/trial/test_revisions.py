"""Revisions side by side, and the tries before the one that counts."""

from seatrial.model.record import VerifierRun
from seatrial.model.regrade import FirstVerdict, Regrade
from seatrial.model.review import ReviewContext
from seatrial.view.trial.logs import logs_of
from seatrial.view.trial.revisions import revisions_of, tries_of
from seatrial.view.trial.verdict import opinions_of
from tests.jobs.samples import DIGEST, NOON, broken_machine, evaluation, record
from tests.review.journals import said
from tests.view.trial.trials import keep_trial, opened, page_of, write_files


def regraded(store, reward):
    run = VerifierRun(exit_code=0, duration_sec=1.0, isolation="guarded")
    how = Regrade(
        id="r1",
        seatrial_version="0.2",
        started_at=NOON,
        finished_at=NOON,
        first=FirstVerdict(outcome="pass", reward=1.0),
        task_digest=DIGEST,
    )
    made = record("add", revision=1, parent="add.noop.1", evaluation=evaluation(reward), verifier_run=run, regrade=how)
    with store.draft("add.noop.1", 1) as draft:
        write_files(draft.path, {"verifier/stdout.txt": "judged again"})
        draft.commit(made.model_copy(update={"job": store.file.spec.name}))


def test_revisions_stand_side_by_side_and_what_differs_is_marked(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"), {"verifier/stdout.txt": "judged"})
    assert revisions_of(opened(store)) is None
    regraded(store, 0.5)
    found = revisions_of(opened(store))
    assert found is not None
    assert found.heads == ("revision 0", "revision 1")
    assert {side.label: (side.values, side.differs) for side in found.sides} == {
        "outcome": (("pass", "partial"), True),
        "reward": (("1", "0.5"), True),
        "tags": (("-", "-"), False),
        "verifier": (("-", "exited with 0"), True),
        "isolation": (("-", "guarded"), True),
    }
    (log,) = logs_of(opened(store), "verifier")
    assert (log.files[0].path, log.files[0].size) == ("@revision.1/verifier/stdout.txt", 12)
    assert "another verdict, by Seatrial 0.2 and not 0.1" in page_of(store).words


def test_a_verdict_from_before_a_trial_was_judged_again_is_told_from_one_after_it(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    store.add_reviews(said("add.noop.1", "ada", "pass", context=ReviewContext(revision=0)))
    assert "judged again" not in page_of(store).words
    regraded(store, 0.5)
    store.add_reviews(said("add.noop.1", "eve", "pass", context=ReviewContext(revision=1)))
    assert [each.is_earlier for each in opinions_of(opened(store))] == [True, False]
    assert page_of(store).words.count("before it was judged again") == 1


def test_what_reviewers_say_is_no_difference_between_revisions(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    regraded(store, 1.0)
    store.add_reviews(said("add.noop.1", "ada", "fail", categories=["wrong-method"]))
    trial = opened(store)
    assert trial.record is not None
    assert trial.record.evaluation is not None
    assert trial.record.evaluation.error_taxonomy, "the category is a tag of the trial"
    found = revisions_of(trial)
    assert found is not None
    assert {side.label: side.differs for side in found.sides}["tags"] is False


def test_tries_say_why_they_did_not_count(tmp_path):
    store = keep_trial(tmp_path / "job", record("add", tries=3))
    failed = record("add", failure=broken_machine())
    for number, content in ((1, failed.model_dump_json()), (2, "{"), (10, failed.model_dump_json())):
        write_files(store.path / "tries" / f"add.noop.1.{number}", {"record.json": content})
    write_files(store.path / "tries" / "add.noop.12.1", {"record.json": "of another trial"})
    found = tries_of(opened(store))
    assert [each.number for each in found] == [1, 2, 10]
    assert found[0].told == "no space left (SandboxError, while the sandbox was set up), after 2.5 s"
    assert found[1].told == "its record.json cannot be read"
    assert found[0].files.files[0].path == "@try.1/record.json"
    assert "/raw/%40try.1/record.json" in "".join(page_of(store).values("href"))
