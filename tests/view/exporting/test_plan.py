from seatrial.view.exporting.plan import ExportBounds, ExportPlan


def test_a_page_that_is_left_out_counts_once_however_many_links_lead_there():
    plan = ExportPlan(ExportBounds(pages=1))
    assert plan.page("jobs")
    assert [plan.page("job", job, "1") for job in ("a", "a", "b", "a")] == [None] * 4
    assert plan.left_out_pages == {("job", "a", "1"), ("job", "b", "1")}
