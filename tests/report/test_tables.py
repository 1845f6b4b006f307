"""Figures and trials as tables: every row has a cell for each column, and each says what it is of."""

from seatrial.analysis.summary import summarise
from seatrial.analysis.tables import Table, html_table
from seatrial.report.html.parts import page_table
from seatrial.report.latex import latex_table
from seatrial.report.markdown import escaped, markdown_table
from seatrial.report.tables import summary_table, trial_row, trials_table, usage_table
from tests.report.test_text import entry

HOSTILE = "</td>|\\&\x1b[31m`"


def test_each_writer_escapes_names_and_numbers_and_keeps_every_cell():
    table = Table(("agent", "model", "mean"), [(HOSTILE, "m_1", "-0.5"), ("b", "m", "1.000")], names=2)
    assert markdown_table(escaped(table)).splitlines() == [
        "| agent | model | mean |",
        "|---|---|---:|",
        "| <code>&#60;/td&#62;&#124;&#92;&#38; &#91;31m&#96;</code> | <code>m&#95;1</code> | -0.5 |",
        "| <code>b</code> | <code>m</code> | 1.000 |",
    ]
    printed = latex_table(table, "what", "tab:x")
    assert r"\begin{tabular}{llr}" in printed
    assert r"& m\_1 & $-$0.5 \\" in printed
    assert r"\textless{}/td\textgreater{}\textbar{}\textbackslash{}\& {[}31m\textasciigrave{} &" in printed
    shown = html_table("what", table)
    assert shown.count('<td style="text-align:left">') == 4
    assert '<td style="text-align:left">&lt;/td&gt;|\\&amp; [31m`</td>' in shown
    cells = page_table("what", table, [["#a"], ["#b"]]).rows[0]
    assert [(cell.kind, cell.target) for cell in cells] == [("name", None), ("name", None), ("number", "#a")]
    assert table.first(1).rows == table.rows[:1]


def test_usage_is_told_per_agent_and_per_trial():
    used = {"model_calls": 3, "input_tokens": 4000, "output_tokens": 500, "cost_usd": 0.5}
    entries = [entry(**used), entry(**{**used, "model_calls": 4}), entry(agent="b"), entry(agent="c", **used)]
    entries.append(entry(agent="d", **{**used, "model_calls": 0}))
    entries.append(entry(agent="d", outcome="fail", reward=0.0, **used))
    table = usage_table(summarise(entries, {"a": 2, "b": 1, "c": 1, "d": 2}).agents)
    rows = table.rows
    assert rows[0] == ("a", "7", "8,000", "1,000", "1.0000 USD", "0.5000", "0.5000")
    assert rows[2] == ("d", "3", "8,000", "1,000", "0.5000 USD", "0.2500", "0.5000")
    assert [row[:2] for row in rows[1:]] == [("c", "3"), ("d", "3"), ("(all)", "13")]
    assert {len(row) for row in rows} == {len(table.columns)}
    assert usage_table(summarise([entry()], {"a": 1}).agents).rows == []
    used, without = entries[0], entries[2]
    assert [row[4:] for row in trials_table([used, without], with_usage=True).rows] == [
        ("4,500", "0.5000 USD"),
        ("-", "-"),
    ]
    assert trials_table([used], with_usage=False).columns == ("trial", "outcome", "reward", "time")


def test_each_agent_has_one_row_with_one_mean():
    entries = [entry(), entry(agent="b", outcome="fail", reward=0.0)]
    table = summary_table(summarise(entries, {"a": 1, "b": 3}).agents)
    assert table.rows == [
        ("a", "1.000", "0.000 to 1.000", "100.0%", "0.0 to 100.0%", "1 of 1"),
        ("b", "0.000", "0.000 to 1.000", "0.0%", "0.0 to 100.0%", "1 of 3"),
    ]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_a_row_says_what_was_never_judged_and_how_often_it_was_started():
    assert trial_row(entry(outcome="verifier_error", reward=0.0, tries=3, duration_sec=None, trial_id="a\x1bb")) == (
        "a b (3 tries)",
        "verifier_error",
        "-",
        "-",
    )
    disputed = entry(trial_id="d", outcome="fail", reward=0.0, disputed_reward=1.0, put_back=2)
    assert trial_row(disputed)[1:3] == ("fail, disputed", "0 (or 1)")
