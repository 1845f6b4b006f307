"""Filters: each key, how conditions go together, and that whatever somebody types is a filter or a clear complaint."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.filters import KEYS, parse_filter
from seatrial.errors import UsageError
from seatrial.model.job import TaskLabels
from seatrial.store.index import TrialEntry

LABELS = TaskLabels(category="sorting", difficulty="hard", family="sort", tags=("lists", "slow"))


def trial(task="sort-1", **changes: Any) -> TrialEntry:
    plain = TrialEntry(f"{task}.oracle.2", task, "oracle", 2, "partial", 0.5, 3, 61.0, None, None)
    return plain._replace(
        **{
            "input_tokens": 900,
            "output_tokens": 200,
            "cost_usd": 1.5,
            "tags": ("judge:off_by_one", "mechanical:no_output"),
            "warnings": ("agent-never-ran",),
            "failed_step": "second",
            "revision": 1,
            **changes,
        }
    )


FITTING = """
outcome=partial; outcome=p*; outcome!=pass; outcome=pass|partial; outcome = partial , task = sort-1
task=sort-*; task!=add*; agent=oracle; agent=or?cle; trial=sort-1.*; attempt=2; attempt=[12]; attempt>1; attempt=1|2
tag=off_by_one; tag=judge:*; tag=judge:off_by_one; tag!=no_such; task_tag=slow; task_tag!=quick; category=sorting
difficulty=hard|easy; family=s*; step=second; warning=agent-*; revision=1; revision>=1; disputed=no; disputed!=yes
reward<0.6; reward<=0.5; reward>=0.5; reward>0.4; reward=0.5; reward=.50; reward!=1; reward=*; cost>1; time>60
tokens>1000; tokens=1100; tries>1
"""
OTHER = """
outcome=fail; outcome!=partial; outcome=pass|fail; outcome=partial,task=add; task=Sort-1; task!=sort-1|x; agent=o
attempt=1; tag=off; tag!=judge:*; tag=judge; task_tag=quick; category!=sorting; family=sor; step=first; warning=x
revision=0; disputed=yes; reward<0.5; reward>0.5; reward!=0.5; cost<1.5; time>61; tokens<1100; tries=1; cost!=*
"""


def filters(text: str) -> list[str]:
    return [each.strip() for each in text.replace("\n", ";").split(";") if each.strip()]


@pytest.mark.parametrize("text", filters(FITTING))
def test_trials_that_fit(text):
    assert parse_filter(text).fits(trial(), LABELS)


@pytest.mark.parametrize("text", filters(OTHER))
def test_trials_that_do_not(text):
    assert not parse_filter(text).fits(trial(), LABELS)


@pytest.mark.parametrize("key", ["reward", "cost", "time", "tokens"])
def test_what_is_not_known_is_neither_less_nor_more(key):
    names = {"reward": ["reward"], "cost": ["cost_usd"], "time": ["duration_sec"]}
    unknown = trial(**dict.fromkeys(names.get(key, ["input_tokens", "output_tokens"])))
    assert not parse_filter(f"{key}<1").fits(unknown)
    assert not parse_filter(f"{key}>=0").fits(unknown)
    assert parse_filter(f"{key}!=*").fits(unknown)


def test_filters_of_a_task_without_labels():
    assert not parse_filter("category=*").fits(trial())
    assert parse_filter("category!=*,task_tag!=*").fits(trial())


def test_commas_and_bars_in_names():
    odd = trial("a,b|c\\d[1]")
    assert parse_filter(r"task=a\,b\|c\\d[1]").fits(odd)
    assert parse_filter(r"task=nothing|a\,*").fits(odd)


def test_several_filters_must_all_hold():
    both = parse_filter("outcome=partial", "task=sort-*,attempt=2")
    assert both.fits(trial())
    assert not both.fits(trial(outcome="fail"))
    assert str(both) == "outcome=partial,task=sort-*,attempt=2"
    assert parse_filter().fits(trial())
    assert not parse_filter()


def test_which_can_be_asked_before_a_trial_has_run():
    assert parse_filter("task=x,agent=y,attempt>1,category=z,trial=t").is_planned
    assert not parse_filter("task=x,reward>0").is_planned


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("outcom=fail", "there is no key 'outcom'; did you mean 'outcome'; keys are task, agent"),
        ("outcome=failed", "no outcome is like 'failed'; did you mean 'fail'; there are pass, partial"),
        ("disputed=maybe", "there are yes, no"),
        ("task=a,b", "'b' is no condition; write KEY=PATTERN, and KEY=ONE|OTHER for one or the other"),
        ("reward>much", "reward is a number, found 'much'"),
        ("reward=nan", "reward is a number, found 'nan'"),
        ("reward>1|2", "'>' takes one number, found 2"),
        ("task<3", "task is a word, so write task=PATTERN"),
        ("task=", "there is nothing after '='"),
        ("task=|", "there is nothing after '='"),
        ("", "a condition is empty"),
        ("task=a,", "a condition is empty"),
        (",", "a condition is empty"),
    ],
)
def test_complaints(text, complaint):
    with pytest.raises(UsageError) as raised:
        parse_filter(text)
    assert complaint in str(raised.value)


@given(st.lists(st.sampled_from([*KEYS, "=", "!=", "<", ">=", ",", "|", "\\", "1", "*", "[", "x", " "]), max_size=8))
def test_anything_is_a_filter_or_a_usage_error(words):
    try:
        found = parse_filter("".join(words))
    except UsageError:
        return
    assert found.fits(trial(), LABELS) in (True, False)
    assert parse_filter(str(found)) == found


@given(st.text(st.characters(exclude_characters="*?["), min_size=1).filter(lambda name: name == name.strip()))
def test_every_name_can_be_asked_for(name):
    quoted = name.replace("\\", "\\\\").replace(",", "\\,").replace("|", "\\|")
    wanted = parse_filter(f"task={quoted}")
    assert wanted.fits(trial(name))
    assert not parse_filter(f"task!={quoted}").fits(trial(name))
