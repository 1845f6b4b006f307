"""Omissions: each thing once, wherever in a list it stood, and only so many."""

from seatrial.gateway.omissions import Omissions


def test_each_thing_is_noted_once():
    omissions = Omissions()
    assert omissions.first_seen(["store", "tools[3] (web_search)"]) == ["store", "tools[3] (web_search)"]
    assert omissions.first_seen(["tools[4] (web_search)", "store", "tools[4] (computer)"]) == ["tools[4] (computer)"]
    assert omissions.noted == ("store", "tools[3] (web_search)", "tools[4] (computer)")


def test_an_agent_cannot_fill_the_record_with_names():
    omissions = Omissions()
    for number in range(1000):
        omissions.first_seen([f"field{number}" * 100])
    assert len(omissions.noted) == 100
    assert max(map(len, omissions.noted)) == 200
