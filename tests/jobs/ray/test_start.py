"""Getting to a cluster: what stands in the way is said at once, with what to do."""

import sys

import pytest

from seatrial.errors import UsageError
from seatrial.jobs.engine import make_engine
from seatrial.jobs.ray.start import connected
from seatrial.model.job import RunOptions


def test_without_ray_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[ray\]'"):
        make_engine(RunOptions(engine="ray"))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ray://127.0.0.1:10001", "Ray's client cannot be used"),
        ("127.0.0.1:1", "no cluster answers at 127.0.0.1:1: Connection refused"),
        ("127.0.0.1:port", "expected auto, or HOST:PORT"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_at_once(address, reason):
    pytest.importorskip("ray", reason="no Ray: install ray")
    with pytest.raises(UsageError, match=reason), connected(address):
        pass
