"""`seatrial agents list` and `show`: what there is, and all about one."""

import json

from tests.agents.test_presets import MINIMAL, OURS
from tests.cli.conftest import Seatrial, cells


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
