"""`seatrial gateway`: an agent finds it by what it prints, each call is told, and Ctrl-C ends it with the totals."""

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seatrial.agents.environ import model_variables
from seatrial.gateway.access import agent_variables
from seatrial.gateway.calls import read_calls
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL, Seatrial
from tests.conftest import sampled

TIMEOUT_SEC = 30
SCRIPT = '"hello"\n{"text": "again", "usage": {"input_tokens": 1000, "output_tokens": 100}}\n'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.jsonl"
    path.write_text(SCRIPT)
    return path


@contextmanager
def running(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A gateway that is ended with the block, if it was not before."""
    command = [*SEATRIAL, "gateway", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=PLAIN_ENVIRONMENT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def exported(process: "subprocess.Popen[str]", model: str | None = None) -> dict[str, str]:
    """The variables that a gateway says to export."""
    count = len(agent_variables("", "")) + len(model_variables(model) if model else ())
    found = [re.fullmatch(r"export (\w+)=(\S+)\n", line_of(process)) for _ in range(count)]
    return {match[1]: match[2] for match in found if match}


def ask(variables: dict[str, str], **more: Any) -> dict[str, Any]:
    body = {"model": "small-1", "messages": [{"role": "user", "content": "hi"}], **more}
    request = urllib.request.Request(
        f"{variables['OPENAI_BASE_URL']}/chat/completions",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {variables['OPENAI_API_KEY']}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SEC) as answer:
        value: dict[str, Any] = json.loads(answer.read())
        return value


def end(process: "subprocess.Popen[str]", number: int = signal.SIGINT) -> tuple[int, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_SEC)
    assert "Traceback" not in err
    return process.returncode, out


def test_an_agent_finds_it_and_each_call_is_told_and_kept(script: Path, tmp_path: Path):
    prices = tmp_path / "prices.toml"
    prices.write_text('[models]\n"big-1" = { input = 10.0, output = 100.0 }\n')
    with running("--upstream", f"scripted:{script}", "-m", "big-1", "--prices", prices, "--calls", tmp_path) as gateway:
        variables = exported(gateway, "big-1")
        assert {variables["OPENAI_MODEL"], variables["ANTHROPIC_MODEL"]} == {"big-1"}
        assert variables["ANTHROPIC_BASE_URL"] + "/v1" == variables["OPENAI_BASE_URL"]
        assert ask(variables)["choices"][0]["message"]["content"] == "hello"
        assert line_of(gateway).startswith("call 0 · big-1 (asked for small-1) · 200 · stop · ")
        ask(variables)
        assert " · 1,000 in, 100 out · 0.0200 USD · " in line_of(gateway)
        code, rest = end(gateway)
    assert code == 0
    costs = r"0.02\d\d USD by the prices of prices.toml, Seatrial \d{4}-\d\d-\d\d"
    assert re.fullmatch(rf"total: 2 calls, 1,\d+ tokens in, 1\d\d out, {costs}\n", rest)
    assert [call.upstream_model for call in read_calls(tmp_path / "calls.jsonl")] == ["big-1", "big-1"]


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGHUP]))
def test_programs_get_json_and_other_signals_are_an_end_too(script: Path, number: int):
    with running("--upstream", f"scripted:{script}", "--json", "--max-turns", 1) as gateway:
        begun = json.loads(line_of(gateway))
        assert begun["event"] == "listening"
        ask(begun["variables"])
        assert json.loads(line_of(gateway))["call"]["response"]["choices"][0]["message"]["content"] == "hello"
        with pytest.raises(urllib.error.HTTPError, match="429"):
            ask(begun["variables"])
        assert json.loads(line_of(gateway))["call"]["error"]["kind"] == "budget"
        code, rest = end(gateway, number)
    assert code == 0
    assert json.loads(rest)["usage"]["calls"] == 1


@pytest.mark.whole
def test_a_reader_that_goes_away_does_not_fail_the_agent(script: Path):
    with running("--upstream", f"scripted:{script}") as gateway:
        variables = exported(gateway)
        assert gateway.stdout is not None
        gateway.stdout.close()
        assert ask(variables)["choices"][0]["message"]["content"] == "hello"
        assert ask(variables)["choices"][0]["message"]["content"] == "again"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "no upstream; say where calls go with --upstream"),
        (("--upstream", "nowhere"), "there is no upstream 'nowhere'"),
        (("--upstream", "scripted:/nowhere"), "/nowhere"),
        (("--upstream", "openai:http://x/v1", "--host", "10.0.0.1"), "other machines can reach 10.0.0.1; give"),
        (("--upstream", "openai:http://x/v1", "--host", "example.org"), "give --public too"),
        (("--upstream", "openai:http://x/v1", "--prices", "/nowhere"), "the prices in /nowhere cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(seatrial: Seatrial, arguments: tuple[str, ...], complaint: str):
    shown = seatrial("gateway", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert complaint in shown.err


@pytest.mark.whole
def test_a_port_that_is_taken_is_said(seatrial: Seatrial, script: Path):
    with running("--upstream", f"scripted:{script}") as gateway:
        port = exported(gateway)["ANTHROPIC_BASE_URL"].rpartition(":")[2]
        shown = seatrial("gateway", "--upstream", f"scripted:{script}", "--port", port)
    assert shown.code == 2
    assert "Address already in use" in shown.err
