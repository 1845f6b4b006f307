"""An agent of a stranger's package that knows how it is installed: it runs without any option."""

import pytest

from seatrial.agents.api import with_own_setup
from seatrial.errors import UsageError
from seatrial.jobs.agents import changed_agents, locked_agent
from seatrial.jobs.api import run_job
from seatrial.model.job import AgentFiles, AgentLayer, AgentOptions, LayerRecipe, TrialOptions
from tests.cli.test_gc_command import why_no_sandbox
from tests.installed import install
from tests.trial.support import write_task

PARROT = """
from pathlib import Path

from seatrial.agents.api import AgentLaunch, AgentSetup
from seatrial.model.job import AgentFiles
from seatrial.model.record import AgentRef


class Parrot:
    setup = AgentSetup(
        "tr A-Z a-z </parrot/words >/usr/local/share/words",
        (AgentFiles(source=str(Path(__file__).parent / "words"), target="/parrot"),),
    )

    def __init__(self, options):
        self.ref = AgentRef(name=options.title)

    def templates(self, config):
        return {}

    def prepare(self, context):
        return AgentLaunch(("cp", "/usr/local/share/words", "/app/answer.txt"))


class Odd(Parrot):
    setup = "pip install odd"


class Carried(Parrot):
    setup = AgentSetup(files=Parrot.setup.files)
"""

BAKED = """
from seatrial.agents.api import AgentSetup
from seatrial.agents.noop import NoopAgent
from seatrial.model.job import LayerRecipe


class Baked(NoopAgent):
    setup = AgentSetup(recipe=LayerRecipe(name="baked", version="1.0"))
"""


@pytest.fixture
def site(monkeypatch, tmp_path):
    folder = tmp_path / "site"
    agents = "parrot = Parrot\nodd = Odd\ncarried = Carried"
    install(monkeypatch, folder, "parrot", PARROT, agents=agents)
    (folder / "words").write_text("RIGHT\n")
    return folder


def test_it_is_installed_by_itself(site, tmp_path, monkeypatch):
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    write_task(tmp_path / "task")
    outcome = run_job(tmp_path / "task", "parrot", folder=tmp_path / "job", options=TrialOptions(image="host"))
    (entry,) = outcome.store.entries()
    assert entry.reward == 1.0, outcome.store.record(entry.trial_id).failure
    (stored,) = outcome.store.file.spec.agents
    assert stored.setup == "tr A-Z a-z </parrot/words >/usr/local/share/words"
    assert stored.files[0].digest is not None


def test_a_user_s_own_set_up_goes_before_all_of_it(site):
    mine = AgentOptions(name="parrot", setup="apt-get install parrot")
    assert with_own_setup(mine) == mine


def test_a_recipe_of_its_own_is_taken_unless_the_user_brings_a_layer(monkeypatch, tmp_path):
    (tmp_path / "tree/opt").mkdir(parents=True)
    install(monkeypatch, tmp_path / "site", "baked", BAKED, agents="baked = Baked")
    assert with_own_setup(AgentOptions(name="baked")).recipe == LayerRecipe(name="baked", version="1.0")
    mine = locked_agent(AgentOptions(name="baked", layer=AgentLayer(source=str(tmp_path / "tree"))))
    assert mine.recipe is None
    assert mine.layer is not None
    assert mine.layer.digest is not None
    assert changed_agents([mine]) == []
    (tmp_path / "tree/opt/more").touch()
    assert changed_agents([mine]) == [f"agents.baked.layer: {tmp_path}/tree has changed, or is not there any more"]


def test_a_user_s_files_come_along_with_its_own(site):
    mine = AgentFiles(source="/my/seeds", target="/seeds")
    found = with_own_setup(AgentOptions(name="parrot", files=(mine,)))
    assert [each.target for each in found.files] == ["/seeds", "/parrot"]


def test_files_alone_are_brought_once(site):
    once = locked_agent(AgentOptions(name="carried"))
    assert (once.setup, len(once.files)) == (None, 1)
    assert locked_agent(once) == once


def test_what_is_no_set_up_is_refused(site):
    with pytest.raises(UsageError, match="the agent 'odd' is set up by 'pip install odd', expected a seatrial"):
        with_own_setup(AgentOptions(name="odd"))


def test_those_that_say_nothing_stay_as_they_are():
    assert with_own_setup(AgentOptions(name="noop")) == AgentOptions(name="noop")
