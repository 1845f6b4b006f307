"""What is said of each node."""

from seatrial.jobs.ray.engine import examine_nodes
from tests.jobs.ray.fake_cluster import FakeCluster
from tests.jobs.ray.test_runner import within


def test_each_node_is_described_and_what_it_lacks_is_said(make_node):
    cluster = FakeCluster(
        make_node("fit"), make_node("old", unfit="it has Seatrial 0.0"), make_node("bare", no_sandbox="no namespaces")
    )
    found = within(examine_nodes(cluster))
    assert [(each.node, each.status, each.reason) for each in found] == [
        ("fit", "fit", ""),
        ("old", "unfit", "it has Seatrial 0.0"),
        ("bare", "unfit", "no namespaces"),
    ]
    assert "null sandboxes" in found[0].detail
    assert [("cores" in each.detail) for each in found] == [True, False, True]
