"""The methods paragraph: it says what was computed for this report, and nothing that was not."""

from seatrial.analysis.arms import arms_of
from seatrial.analysis.comparison import compare_arms
from seatrial.analysis.loaded import load_job
from seatrial.model.imported import ImportedJob
from seatrial.report.methods import Computed, methods
from tests.cli.job_folders import BROKEN, make_job, record


def arms(folder, *records, **more):
    return arms_of([load_job(make_job(folder / "job", *records, **more).path)])


def two_agents(folder, tasks=3):
    return arms(
        folder,
        *(record(f"t{task}", 1.0, "a") for task in range(tasks)),
        *(record(f"t{task}", float(task % 2), "b") for task in range(tasks)),
    )


def said(arms, comparisons=(), **more):
    return " ".join(methods(Computed(arms, "9.9", comparisons, **more)))


def test_every_denominator_is_named(tmp_path):
    found = said(arms(tmp_path, record("t1", 1.0), record("t2", BROKEN), record("t3", "verifier_error")))
    assert "1 job with 1 agent on 3 tasks and 1 attempt per task and agent" in found
    assert "3 trials planned, 3 with a record, 1 scored" in found
    assert "none of them counts as 0: 1 (could not be run) and 1 (the verifier could not judge)." in found
    assert "the means would be: oracle 0.333" in found
    assert "A trial passed if its reward is at least 1." in found
    assert "computed by Seatrial 9.9" in found


def test_what_was_not_computed_is_not_claimed(tmp_path):
    found = said(arms(tmp_path, record("t1", 1.0)))
    assert "Every planned trial was scored." in found
    for word in ("pass@k", "p-value", "Holm", "family", "forced", "disputed", "Only trials"):
        assert word not in found
    assert "no estimate" in said(arms(tmp_path / "none", record("t1", BROKEN)))


def test_attempts_filters_and_clusters(tmp_path):
    records = [record("t1", 1.0), record("t1", 0.0, attempt=2)]
    found = said(arms(tmp_path, *records, attempts=2), by_family=True, filters=("task=t*",), level=0.9)
    assert "2 attempts per task" in found
    assert "pass@k" in found
    assert "Tasks of one family" in found
    assert "Only trials with task=t* are in it" in found
    assert "level of 90 %" in found


def test_a_comparison_names_its_test_its_seed_and_its_adjustment(tmp_path):
    first, second = two_agents(tmp_path)
    exact = said((first, second), [compare_arms(first, second)], adjusted=3, forced=("the tests differ",))
    assert "exact up to 20 tasks with a difference." in exact
    assert "Holm for 3 comparisons" in exact
    assert "forced although the tests differ." in exact
    first, second = two_agents(tmp_path / "many", tasks=44)
    drawn = said((first, second), [compare_arms(first, second, seed=7)], seed=7)
    assert "drawn 100,000 times with the seed 7 for more than 20 tasks with a difference." in drawn
    assert "Holm" not in drawn


def test_long_lists_are_counted(tmp_path):
    found = said(arms(tmp_path, record("t1", 1.0)), filters=[f"task=t{number}" for number in range(8)])
    assert "task=t4 and 3 more are in it" in found


def test_families_are_said_to_be_clusters_where_they_were(tmp_path):
    first, second = two_agents(tmp_path)
    assert "signs flip together" in said((first, second), [compare_arms(first, second, families={})], by_family=True)
    assert "take every task by itself" in said((first, second), [compare_arms(first, second)], by_family=True)


def test_families_are_what_is_flipped_and_drawn(tmp_path):
    first, second = two_agents(tmp_path, tasks=44)
    families = {f"t{task}": f"f{task % 4}" for task in range(44)}
    found = said((first, second), [compare_arms(first, second, families=families)], by_family=True)
    assert "exact up to 20 families with a difference." in found
    assert "drawn" not in found


def test_means_of_many_agents_are_not_cut_in_silence(tmp_path):
    found = said(arms(tmp_path, *(record("t", BROKEN if agent == "0" else 1.0, agent) for agent in "01234567")))
    assert "the means would be: 0 0.000, 1 1.000, 2 1.000, 3 1.000, 4 1.000 and 3 more." in found


def test_what_others_ran_is_not_said_to_be_ours(tmp_path):
    make_job(tmp_path / "x", record("t", 1.0))
    mine, theirs = load_job(tmp_path / "x"), load_job(tmp_path / "x")
    source = ImportedJob(format="harbor", version="0.24.0", sha256="d" * 64, reward_range=(0.0, 2.0))
    theirs.store.file = theirs.file.model_copy(update={"imported": source})
    said = " ".join(methods(Computed(arms_of([theirs]), "1")))
    source_words = "imported from results of Harbor 0.24.0, whose rewards from 0 to 2 were mapped onto 0 to 1."
    assert f"The trials were {source_words}" in said
    both = " ".join(methods(Computed(arms_of([mine, theirs]), "1")))
    assert f"The trials were run by Seatrial 0 or were {source_words}" in both
