"""Plug-ins by entry point: found, missing, broken."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from seatrial import plugins
from seatrial.errors import UsageError

GROUP = "seatrial.things"


@pytest.fixture
def registered(monkeypatch):
    """Three entry points of a group, one of which cannot be loaded and one whose module fails."""
    every = EntryPoints([
        EntryPoint("good", "collections:OrderedDict", GROUP),
        EntryPoint("missing", "no.such.module:thing", GROUP),
        EntryPoint("absent", "collections:NoSuchName", GROUP),
    ])  # fmt: skip
    monkeypatch.setattr(plugins, "entry_points", every.select)


@pytest.mark.usefixtures("registered")
def test_a_plug_in_is_loaded_by_its_name():
    assert plugins.load_plugin(GROUP, "good").__name__ == "OrderedDict"
    assert plugins.plugin_names(GROUP) == ["absent", "good", "missing"]


@pytest.mark.usefixtures("registered")
def test_an_unknown_name_is_answered_with_those_there_are():
    with pytest.raises(UsageError, match="there is no thing called 'better'; there are: absent, good, missing"):
        plugins.load_plugin(GROUP, "better")
    with pytest.raises(UsageError, match="there are: none"):
        plugins.load_plugin("seatrial.nothings", "good")


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", ["missing", "absent"])
def test_a_plug_in_that_cannot_be_loaded_says_why(name):
    with pytest.raises(UsageError, match=f"the plug-in '{name}' of {GROUP} cannot be loaded: .*(no|NoSuchName)"):
        plugins.load_plugin(GROUP, name)
