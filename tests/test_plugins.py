"""Plug-ins by entry point: found, missing, broken."""

import sys
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
    monkeypatch.setattr(sys, "path", [*sys.path, "/nowhere"])  # what is there is not known from before, nor afterwards


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


def test_one_that_is_installed_while_we_run_is_found(tmp_path, monkeypatch):
    assert plugins.plugin_names(GROUP) == []
    metadata = tmp_path / "things-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: things\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\nnew = collections:OrderedDict\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugins.plugin_names(GROUP) == ["new"]
    assert plugins.load_plugin(GROUP, "new").__name__ == "OrderedDict"
