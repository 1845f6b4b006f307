"""Tables in notebooks: whole HTML, nothing of a stranger's in it that a browser would obey, and no colours of ours."""

from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.compare import compare
from seatrial.analysis.loaded import load_job
from seatrial.analysis.tables import Table, html_table, pair_row
from tests.cli.job_folders import BROKEN, make_job, record

HOSTILE = "<script>alert(1)</script>\x1b[31m&\"'"


class Parsed(HTMLParser):
    """What a browser would find in a piece of HTML: its elements, and the texts of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, _: Any) -> None:
        self.names.append(tag)
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@given(st.text(max_size=40))
def test_any_text_stays_text(text):
    parsed = Parsed(html_table(text, Table((text,), [(text,), (text,)]), [text]))
    assert set(parsed.names) == {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    shown = "".join(each if each.isprintable() else " " for each in text)
    assert parsed.cells == [shown] * 3


def test_a_job_is_a_row_for_each_agent(tmp_path):
    make_job(tmp_path / "job", record("a", 1.0), record("b", BROKEN), record("a", 0.0, HOSTILE))
    job = load_job(tmp_path / "job")
    shown = job._repr_html_()
    cells = Parsed(shown).cells
    mean = job.summary.agents["oracle"].estimate
    assert mean is not None
    assert cells[9:18] == ["oracle", "1.000", f"{mean.low:.3f} to {mean.high:.3f}", "1.000", "1", "1", "2", "1", "-"]
    assert cells[18].startswith("<script>alert(1)</script> [31m")
    assert "color" not in shown
    assert repr(job) == "<LoadedJob 'job': 2 agents, 3 of 4 trials>"
    assert "1 of 3 finished trials, those where outcome=fail" in job.where("outcome=fail")._repr_html_()


def test_arms_figures_and_comparisons_are_tables(tmp_path):
    tasks = [f"t{number}" for number in range(6)]
    make_job(tmp_path / "job", *(record(t, reward, a) for t in tasks for a, reward in (("x", 0.0), (HOSTILE, 1.0))))
    job = load_job(tmp_path / "job")
    assert Parsed(job.arms[0]._repr_html_()).cells[9:11] == ["x", "0.000"]
    assert repr(job.arms[0]) == "<Arm 'x' of 'job': 6 of 6 trials, mean 0.000>"
    assert Parsed(job.arms[1].figures._repr_html_()).cells[4:6] == ["mean reward", "1.000"]
    made = compare(job)
    for shown in (made._repr_html_(), made.comparisons[0]._repr_html_()):
        cells = Parsed(shown).cells
        assert cells[10] == "x"
        assert cells[12] == "+100.0"
        assert cells[-1] == made.comparisons[0].verdict
    assert "\x1b" not in repr(made)
    assert len(repr(made)) < 200


def test_nothing_to_compare_has_dashes_and_no_zeros():
    assert pair_row(("a", "b"), None, None, None, "inconclusive")[2:5] == ("-", "-", "-")
