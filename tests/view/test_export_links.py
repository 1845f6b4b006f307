import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.view.export_links import ExportBounds, ExportPlan, plain_name, raw_name


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_are_plain_and_tell_things_apart_also_without_case(one, other):
    names = [plain_name(one), plain_name(other)]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name) and name[0] != "." for name in names)
    assert (names[0].lower() == names[1].lower()) == (one == other)


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("page.html", "page.html.txt"),
        ("a.svg", "a.svg.txt"),
        ("no-suffix", "no-suffix.txt"),
        ("a.json", "a.json"),
        ("deep/A.PNG", ".png"),
        ("x.xhtml", ".txt"),
        ("a.png.html", ".txt"),
        ("\udcff.mhtml", ".txt"),
    ],
)
def test_no_raw_file_is_opened_as_a_page(path, end):
    assert raw_name(path).endswith(end)


def test_a_page_that_is_left_out_counts_once_however_many_links_lead_there():
    plan = ExportPlan(ExportBounds(pages=1))
    assert plan.page("jobs")
    assert [plan.page("job", job, "1") for job in ("a", "a", "b", "a")] == [None] * 4
    assert plan.left_out_pages == {("job", "a", "1"), ("job", "b", "1")}
