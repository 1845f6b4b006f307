import pytest

from seatrial.errors import UsageError
from seatrial.model.job import TaskLabels, TrialOptions
from seatrial.report.document import ReportOptions, make_document
from tests.analysis.memory_jobs import memory_job, trial
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
        make_document([memory_job(trials, labels=labels)], ReportOptions(clusters=clusters)).figures[0].mean
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
        assert one.mean
        assert other.mean
        assert one.mean.low < other.mean.low
    assert wide.comparisons[0].comparison.paired
    assert wide.comparisons[0].comparison.paired.level == 0.99
