"""Markdown for a pull request: what it says, that it is short enough, and that strangers' names are only names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.arms import arms_of
from seatrial.report.comment import MOST_CHARACTERS, write_markdown
from seatrial.report.document import ReportOptions, make_document
from seatrial.report.latex import write_latex
from seatrial.report.markdown import md_heading, md_name, md_prose
from tests.analysis.memory_jobs import memory_job, trial
from tests.report.hostile import NASTY, arms_named, mixed_arms, written

REFERENCE = re.compile(r"&#(\d+);")


def comment(job, **options):
    return written(write_markdown, make_document([job], ReportOptions(**options))).decode()


def two_agents(tasks=4, name="t"):
    first = [trial(f"{name}{number}", "old", float(number % 2)) for number in range(tasks)]
    return memory_job([*first, *(trial(f"{name}{number}", "new", float(number % 3 > 0)) for number in range(tasks))])


def test_it_has_the_answer_the_agents_the_comparison_the_flips_and_the_methods():
    text = comment(two_agents())
    lines = text.splitlines()
    assert lines[0] == "## nightly"
    assert lines[2].startswith("**old and new are level on 4 common tasks")
    old = next(line for line in lines if line.startswith("| <code>old</code> | 0.500"))
    assert old.endswith("| 4 of 4 | 4 | 2.0 s |")
    assert "| <code>new</code> | <code>old</code> | 0.0 |" in text
    assert "<summary><code>new</code> against <code>old</code>: 1 won, 1 lost</summary>" in text
    assert "| <code>t2</code> | 0.000 | 1.000 | +100.0 |" in text
    assert "The unit of analysis is the task" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_failures_have_shares_with_intervals_and_what_has_no_verdict_is_counted_apart():
    text = comment(mixed_arms()[0].job)
    assert "| <code>misread</code> | <code>a</code> | <code>judge</code> | <code>t2.a.1</code> | 1 | 33.3 % (" in text
    assert "3 trials have no verdict" in text
    assert "<code>SandboxError: no space left</code> (such as <code>t1.b.1</code>)" in text


def test_every_row_of_a_table_has_as_many_cells_as_its_header_whatever_names_are():
    text = comment(arms_named(NASTY)[0].job, title=NASTY)
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({line.count("|") for line in table.strip().splitlines()}) == 1


def test_it_is_never_too_long_to_be_posted():
    name = "<" * 200
    trials = [
        trial(f"{name}{number}", f"{name}{agent}", float(agent < 3)) for number in range(3) for agent in range(60)
    ]
    text = comment(memory_job(trials))
    assert len(text) <= MOST_CHARACTERS
    assert "left out, because a comment cannot be longer" in text
    assert text.count("<details>") == text.count("</details>")


def test_rewards_of_another_meaning_are_not_compared_or_said_to_be():
    first = memory_job([trial("t", "a", 1.0)], name="one")
    strict = first.file.spec.trial.model_copy(update={"pass_threshold": 0.5})
    second = memory_job([trial("t", "b", 0.0)], name="two", trial=strict)
    refused = make_document([first, second])
    text = written(write_markdown, refused).decode()
    assert "> **Not compared:** b is not compared with a" in text
    assert "### Comparisons" not in text
    forced = make_document([first, second], ReportOptions(comparability="forced"))
    text = written(write_markdown, forced).decode()
    assert "> **Forced:** b is compared with a although" in text
    assert "### Comparisons" in text
    assert "The comparison was forced" in written(write_latex, forced).decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a&#124;b"),
        ("<b>", "&#60;b&#62;"),
        ("[x](y)", "&#91;x&#93;(y)"),
        ("https://x", "https&#58;//x"),
        ("see www.x", "see www&#46;x"),
        ("@team", "&#64;&#8288;team"),
        ("#12", "&#35;&#8288;12"),
        ("GH-12", "GH&#8288;-12"),
        ("plain text, 4.2 % (1 to 2)", "plain text, 4.2 % (1 to 2)"),
    ],
)
def test_what_a_code_host_would_act_on_is_only_shown(text, shown):
    assert md_prose(text) == shown


@given(st.text(max_size=60))
def test_no_name_has_markup_of_its_own(text):
    for shown in (md_name(text).removeprefix("<code>").removesuffix("</code>"), md_prose(text), md_heading(text)):
        rest = REFERENCE.sub("", shown)
        assert not set("|<>`*_[]\\~@#&!\n\r") & set(rest)


def test_the_same_job_gives_the_same_bytes():
    assert comment(two_agents()) == comment(two_agents())
    assert len(arms_of([two_agents()])) == 2
