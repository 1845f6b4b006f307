"""`seatrial agents`: trees of agents that are baked, saved and loaded."""

import asyncio
import json

import pytest

from seatrial.agents import presets
from seatrial.cli.main import run
from seatrial.errors import UsageError
from seatrial.images.store import open_store
from seatrial.model.job import LayerRecipe
from tests.agents.test_presets import MINIMAL, OURS
from tests.cli.conftest import Seatrial, cells
from tests.images.baking.support import put_tree

RECIPE = LayerRecipe(name="pi", version="1.0", programs={"pi": "pi"})


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with the tree of an agent that has a preset."""

    def recipe_of(name: str, version: str | None, _: object) -> LayerRecipe:
        if name != "pi":
            raise UsageError(f"there is no agent {name!r}")
        return RECIPE.model_copy(update={"version": version or "1.0"})

    async def fill() -> None:
        async with open_store() as store:
            await put_tree(store, RECIPE)

    monkeypatch.setattr(presets, "recipe_of", recipe_of)
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    asyncio.run(fill())


def test_what_is_there_is_not_baked_again_and_goes_from_machine_to_machine(store, tmp_path, monkeypatch, capsys):
    assert run(["agents", "bake", "pi", "-o", str(tmp_path / "pi.tar")]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("pi 1.0 sha256:")
    assert f"written to {tmp_path}/pi.tar, " in said.out
    assert said.err == ""
    assert run(["agents", "save", "pi@1.0", str(tmp_path / "again.tar")]) == 0
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "pi.tar").read_bytes()
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    capsys.readouterr()
    assert run(["agents", "load", str(tmp_path / "pi.tar")]) == 0
    assert capsys.readouterr().out == said.out.splitlines(keepends=True)[0]
    assert run(["images", "list"]) == 0
    assert "seatrial.invalid/agents/pi:1.0-" in capsys.readouterr().out


def test_what_was_not_baked_and_what_nobody_knows_is_said(store, tmp_path, capsys):
    assert run(["agents", "save", "pi@2.0", str(tmp_path / "pi.tar")]) == 2
    assert "pi@2.0 has not been baked here; `seatrial agents bake pi@2.0 -o" in capsys.readouterr().err
    assert run(["agents", "bake", "parrot"]) == 2
    assert "there is no agent 'parrot'" in capsys.readouterr().err
    assert not (tmp_path / "pi.tar").exists()


def test_all_are_listed_with_what_matters(seatrial: Seatrial, tmp_path):
    (tmp_path / "mine.toml").write_text(MINIMAL)
    shown = seatrial("agents", "list", "--agents-dir", tmp_path)
    header, *rows = [cells(line) for line in shown.out.splitlines()]
    assert header[:4] == ["agent", "version", "dialect", "least memory"]
    assert {row[0] for row in rows} >= {*OURS, "mine"}
    assert {len(row) for row in rows} == {len(header)}
    assert ["mine", "1", "openai_chat", "not known", "not baked", str(tmp_path / "mine.toml"), "Mine"] in rows
    listed = json.loads(seatrial("agents", "list", "--json").out)
    assert {each["name"] for each in listed} >= set(OURS)


def test_one_is_shown_in_plain_words(seatrial: Seatrial):
    shown = seatrial("agents", "show", "claude-code")
    assert shown.code == 0
    for word in ("Claude Code", "claude --print", "max_turns", "web_tools", "goes on with its session", "512 MB"):
        assert word in shown.out
    assert json.loads(seatrial("agents", "show", "codex", "--json").out)["name"] == "codex"
    assert "begins anew" in seatrial("agents", "show", "openhands").out


def test_every_one_can_be_shown(seatrial: Seatrial):
    assert [seatrial("agents", "show", name).code for name in OURS] == [0] * len(OURS)


def test_an_unknown_one_is_said_with_the_known_ones(seatrial: Seatrial):
    shown = seatrial("agents", "show", "nobody")
    assert shown.code == 2
    assert "there is no preset called 'nobody'; there are: aider" in shown.err
