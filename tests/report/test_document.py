import pytest

from seatrial.analysis.arms import arms_of
from seatrial.analysis.compare import compare_arms
from seatrial.analysis.loaded import load_job
from seatrial.errors import UsageError
from seatrial.model.job import TaskLabels, TrialOptions
from seatrial.model.record import ImportedJob
from seatrial.report.document import Computed, ReportOptions, headline, make_document, methods
from seatrial.stats.paired import holm
from tests.analysis.memory_jobs import memory_job, trial
from tests.cli.job_folders import BROKEN, make_job, record
from tests.report.sample_reports import sample_job


def names(document):
    return [(each.comparison.first.label, each.comparison.second.label) for each in document.comparisons]


def test_each_arm_is_compared_with_the_first_and_p_values_allow_for_all():
    document = make_document([sample_job()])
    assert names(document) == [("careful", "quick"), ("careful", "guesser")]
    for each in document.comparisons:
        assert each.comparison.paired
        assert each.adjusted is not None
        assert each.adjusted >= each.comparison.paired.p_value
        assert each.comparison.p_value == each.adjusted
    assert document.lead is document.comparisons[0]


def test_comparisons_and_ranks_of_a_report_are_corrected_together():
    document = make_document([sample_job()])
    tests = document.leaderboard.ranking.tests
    adjusted = dict(zip(map(frozenset, tests), holm([test.p_value for test in tests.values()]), strict=True))
    assert (len(document.comparisons), document.tested, len(tests)) == (2, 3, 3)
    for each in document.comparisons:
        assert each.adjusted == adjusted[frozenset((each.comparison.first.label, each.comparison.second.label))]
    assert any("Holm for 3 comparisons, those of ranks included" in line for line in document.methods)


def test_the_best_two_are_compared_too_where_the_baseline_is_neither():
    document = make_document([sample_job()], ReportOptions(baseline="guesser"))
    assert names(document) == [("guesser", "careful"), ("guesser", "quick"), ("quick", "careful")]
    assert document.lead is document.comparisons[-1]


def test_an_unknown_baseline_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="'nobody': expected one of careful, quick, guesser"):
        make_document([sample_job()], ReportOptions(baseline="nobody"))


def test_the_period_comes_from_the_trials():
    document = make_document([sample_job()])
    assert document.period
    assert (document.period.first, document.period.last) == ("2026-05-01T12:00:00", "2026-05-24T12:00:00")
    assert make_document([memory_job([trial("t", "a", 1.0)])]).period is None


def test_jobs_give_the_title_unless_there_is_one():
    jobs = [sample_job(tasks=2, name=name) for name in ("one", "two", "one")]
    assert make_document(jobs).title == "one and two"
    assert make_document(jobs, ReportOptions(title="mine")).title == "mine"


def test_rewards_that_do_not_mean_the_same_are_compared_only_by_force():
    lower = TrialOptions(pass_threshold=0.5)
    jobs = [memory_job([trial("t", "a", 1.0)]), memory_job([trial("t", "b", 0.5)], name="other", trial=lower)]
    refused = make_document(jobs)
    assert (refused.comparisons, refused.lead, refused.forced) == ((), None, False)
    assert "b is not compared with a, because a reward does not mean the same" in refused.notices[0].text
    assert "pass_threshold" in refused.notices[0].text
    forced = make_document(jobs, ReportOptions(comparability="forced"))
    assert len(forced.comparisons) == 1
    assert forced.forced
    assert any("forced" in sentence for sentence in forced.methods)


def test_families_make_intervals_wider():
    trials = [trial(f"t{index}", "a", float(index < 12)) for index in range(24)]
    labels = {f"t{index}": TaskLabels(family=f"f{index // 4}") for index in range(24)}
    means = [
        make_document([memory_job(trials, labels=labels)], ReportOptions(clusters=clusters)).figures[0].estimate
        for clusters in ("task", "family")
    ]
    assert means[0]
    assert means[1]
    assert means[1].high - means[1].low > 1.3 * (means[0].high - means[0].low)


def test_families_count_in_comparisons_too():
    labels = {f"t{index}": TaskLabels(family=f"f{index // 4}") for index in range(24)}
    trials = [
        trial(f"t{index}", agent, float(index < 8) if agent == "a" else 1.0) for index in range(24) for agent in "ab"
    ]
    single, together = (
        make_document([memory_job(trials, labels=labels)], ReportOptions(clusters=clusters)).comparisons[0].adjusted
        for clusters in ("task", "family")
    )
    assert single is not None
    assert together is not None
    assert single < 0.001 < together


def test_a_level_is_that_of_every_interval():
    wide, narrow = (make_document([sample_job()], ReportOptions(level=level)) for level in (0.99, 0.8))
    for one, other in zip(wide.figures, narrow.figures, strict=True):
        assert one.estimate
        assert other.estimate
        assert one.estimate.low < other.estimate.low
    assert wide.comparisons[0].comparison.paired
    assert wide.comparisons[0].comparison.paired.level == 0.99


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


def two(first: list[float], second: list[float]) -> str:
    """The sentence about two agents with these rewards, task by task."""
    trials = [trial(f"t{index}", "a", reward) for index, reward in enumerate(first)]
    trials += [trial(f"t{index}", "b", reward) for index, reward in enumerate(second)]
    return headline(make_document([memory_job(trials)]))


def test_nothing_judged_is_no_mean():
    assert headline(make_document([memory_job([trial("t", "a", None)])])) == "No trial was judged, so there is no mean."


def test_one_agent_has_its_mean():
    assert headline(make_document([memory_job([trial("t", "a", 1.0)])])).startswith("a has a mean reward of 1.000 (0.")


@pytest.mark.parametrize("turned", [False, True])
def test_the_leader_is_named_first_whatever_the_order(turned):
    good, bad = [1.0] * 40, [0.0] * 30 + [1.0] * 10
    leader, other = ("b", "a") if turned else ("a", "b")
    said = two(bad, good) if turned else two(good, bad)
    assert said.startswith(f"{leader} leads {other} by 75.0 points on 40 common tasks (95 % interval ")
    assert "p < 0.001" in said
    assert said.endswith("So large a difference would be rare if both were equally good.")


def test_who_is_behind_on_common_tasks_does_not_lead_by_a_higher_mean_over_its_own():
    easy = [trial(f"easy-{index}", "a", 1.0) for index in range(9)]
    common = [trial(f"t{index}", agent, float(agent == "b")) for index in range(6) for agent in "ab"]
    both = [trial(f"hard-{index}", "b", 0.0) for index in range(9)]
    said = headline(make_document([memory_job([*easy, *common, *both])]))
    assert said.startswith("b leads a by 100.0 points on 6 common tasks (95 % interval ")


def test_what_may_be_chance_is_said_with_what_could_have_been_seen():
    said = two([1.0, 0.0] * 10, [1.0, 0.0] * 9 + [1.0, 1.0])
    assert said.startswith("b leads a by 5.0 points on 20 common tasks")
    assert "That may be chance: with tasks like these, a difference of" in said


def test_equals_are_level():
    assert two([1.0, 0.0, 1.0], [0.0, 1.0, 1.0]).startswith("a and b are level on 3 common tasks")


def test_few_tasks_cannot_show_anything():
    assert two([1.0, 1.0], [0.0, 0.0]).endswith("So few tasks cannot show a difference, however large.")


def test_agents_without_a_common_task_are_not_compared():
    said = headline(make_document([memory_job([trial("t", "a", 1.0), trial("u", "b", 0.5)])]))
    assert said.endswith("but no judged task in common with b.")


def test_agents_whose_rewards_mean_something_else_are_not_compared():
    lower = TrialOptions(pass_threshold=0.5)
    jobs = [memory_job([trial("t", "a", 1.0)]), memory_job([trial("t", "b", 0.5)], name="other", trial=lower)]
    assert "cannot be compared with b" in headline(make_document(jobs))


def test_equal_means_are_not_the_highest_of_one_alone():
    said = headline(make_document([memory_job([trial("t", "a", 0.5), trial("u", "b", 0.5)])]))
    assert said.startswith("a and others have the highest mean, 0.500 (")
