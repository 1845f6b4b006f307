"""Trials whose agent asks a model: what is kept, what it cost, and whose failure a failed call is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.api import Upstream
from seatrial.gateway.calls import conversation, read_calls
from seatrial.gateway.prices import ModelPrice, PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.atif import AtifTrajectory
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Say, Step
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from tests.trial.support import ANSWER, Desk, Ran, python_command, trial_spec, write_task

PROVIDER_KEY = "sk-provider-key-0123456789"
PRICES = PriceTable(models={"m": ModelPrice(input=1.0, output=2.0)})
TEN_TOKENS: dict[str, Any] = {"text": "right", "usage": {"input_tokens": 8, "output_tokens": 2}}

# An agent without any SDK: it asks the model, and writes what it says to the answer.
AGENT = f"""
    import json, os, urllib.error, urllib.request

    def ask(text, **more):
        body = {{"model": "m", "messages": [{{"role": "user", "content": text}}], **more}}
        headers = {{"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}}
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            return str(error.code)

    def write(text):
        with open("{ANSWER}", "w") as file:
            file.write(text)
"""


def agent(work: str) -> str:
    return python_command(f"{AGENT}\n    {work}\n")


def access(upstream: Upstream, **options: Any) -> ModelAccess:
    return ModelAccess(upstream, SessionOptions(**options), PRICES)


def run(desk: Desk, work: str, model: ModelAccess, **task: Any) -> Ran:
    spec = trial_spec(write_task(desk.new_folder() / "task", **task), agent(work))
    return desk.run_spec(spec, model=model)


def trajectory(folder: Path) -> AtifTrajectory:
    return AtifTrajectory.model_validate_json((folder / "agent/trajectory.json").read_bytes())


def test_what_the_model_says_is_kept_and_counted(desk):
    ran = run(desk, "write(ask('what?'))", access(ScriptedModel([TEN_TOKENS])))
    assert ran.reward == 1.0
    (call,) = read_calls(ran.folder / "calls.jsonl")
    assert call.messages == [{"role": "user", "content": "what?"}]
    assert call.response is not None
    used = ran.record.model_usage
    assert used is not None
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 8, 2)
    assert used.cost_usd == pytest.approx(12e-6)
    assert [step.message for step in trajectory(ran.folder).steps] == ["what?", "right"]


def test_an_agent_may_bring_a_key_of_its_own(desk):
    """Keys like this one are written into many agents; nobody else can reach the gateway in its sandbox."""
    ran = run(desk, "os.environ['OPENAI_API_KEY'] = 'sk-dummy'; write(ask('?'))", access(ScriptedModel([TEN_TOKENS])))
    assert (ran.reward, ran.record.failure) == (1.0, None)
    (call,) = read_calls(ran.folder / "calls.jsonl")
    assert call.error is None


def test_without_a_model_nothing_is_listened_to_and_nothing_kept(desk):
    ran = desk.attack('test -z "$OPENAI_BASE_URL$OPENAI_API_KEY$ANTHROPIC_BASE_URL$ANTHROPIC_API_KEY"')
    assert (ran.agent.exit_code, ran.record.model_usage) == (0, None)
    assert not (ran.folder / "calls.jsonl").exists()
    assert not (ran.folder / "agent/trajectory.json").exists()


def test_every_trial_starts_at_the_first_line_of_a_script(desk):
    model = access(ScriptedModel([TEN_TOKENS]))
    assert [run(desk, "write(ask('what?'))", model).reward for _ in range(2)] == [1.0, 1.0]


def test_the_agents_own_mistake_is_its_own(desk):
    mistakes = "write(ask('what?', messages=None)); assert ask('?', messages=7) == '400'; print('went on')"
    ran = run(desk, mistakes, access(ScriptedModel([TEN_TOKENS])))
    assert ran.record.failure is None
    assert ran.reward == 0.0
    assert ran.text("agent/stdout.txt") == "went on\n"
    assert [call.error and call.error.kind for call in read_calls(ran.folder / "calls.jsonl")] == ["agent"] * 2


def test_a_budget_that_is_used_up_is_no_failure(desk):
    work = "write(ask('what?')); assert ask('more?') == '429'"
    ran = run(desk, work, access(ScriptedModel([TEN_TOKENS] * 2), max_turns=1))
    assert ran.record.failure is None
    assert (ran.reward, ran.agent.exit_code) == (1.0, 0)
    errors = [call.error and call.error.kind for call in read_calls(ran.folder / "calls.jsonl")]
    assert errors == [None, "budget"]


def test_a_script_that_ran_out_ends_the_trial_at_once_and_for_good(desk):
    ran = run(desk, "ask('?'); import time; time.sleep(1000)", access(ScriptedModel([])))
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("agent", "ProviderError", False)
    assert ran.record.evaluation is None
    assert trajectory(ran.folder).steps[0].message == "?"


def provider(url: str, **options: Any) -> HttpProvider:
    settings = ProviderOptions(base_url=url, api_key_var="KEY", **{"retries": 0, **options})
    return HttpProvider(settings, environ={"KEY": PROVIDER_KEY})


def test_a_failing_provider_ends_the_trial_at_once_and_kills_the_agent(desk):
    """The agent would go on for a thousand seconds, and swallows every error."""

    async def scenario() -> Ran:
        script = (Say("go on"), Fail(503, "overloaded"))
        async with FakeProvider(*script) as fake, provider(fake.base_url) as upstream:
            root = write_task(desk.new_folder() / "task")
            spec = trial_spec(root, agent("ask('?'); ask('!'); import time; time.sleep(1000)"))
            folder = desk.new_folder()
            return Ran(await run_trial(spec, Machinery(desk.backend, model=access(upstream)), folder), folder)

    ran = desk.wait(scenario())
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("agent", "ProviderError", True)
    assert "503: overloaded" in ran.failure.message
    assert (ran.record.evaluation, ran.record.agent_result) == (None, None)
    calls = read_calls(ran.folder / "calls.jsonl")
    assert [call.error and (call.error.kind, call.error.status) for call in calls] == [None, ("provider", 503)]
    # What the model used until then was used all the same.
    assert ran.record.model_usage is not None
    assert ran.record.model_usage.output_tokens > 0


_LATE_SEC = 1.5
HASTY = """import socket; socket.setdefaulttimeout(0.05)
    try: ask('?')
    except OSError: pass"""


def run_with(desk, code: str, *script: Step, seconds: float = 30.0, **options: Any) -> Ran:
    """A trial whose agent has so much time and a provider that follows a script."""

    async def scenario() -> Ran:
        async with FakeProvider(*script) as fake, provider(fake.base_url, **options) as upstream:
            asyncio.get_running_loop().call_later(_LATE_SEC, fake.release)
            root = write_task(desk.new_folder() / "task", toml=f"[agent]\ntimeout_sec = {seconds}\n")
            folder = desk.new_folder()
            machinery = Machinery(desk.backend, model=access(upstream))
            return Ran(await run_trial(trial_spec(root, agent(code)), machinery, folder), folder)

    ran: Ran = desk.wait(scenario())
    return ran


def endings(ran: Ran) -> list[str | None]:
    """Who ended each call that came to nothing."""
    return [call.error.ended_by for call in read_calls(ran.folder / "calls.jsonl") if call.error]


@pytest.mark.whole
@pytest.mark.parametrize("step", [Hang(), Hang(after=0), Fail(429, headers={"retry-after": "9999"})])
def test_an_agent_that_runs_out_of_time_while_its_model_is_silent_has_not_failed(desk, step):
    ran = run_with(desk, "ask('?')", step, step, step, seconds=3, retries=3)
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("agent", "ModelSilentError", True)
    assert "when the agent's time was over (0 of its 1 calls had been answered)" in ran.failure.message
    assert (ran.record.evaluation, endings(ran)) == (None, ["us"])


@pytest.mark.whole
def test_an_agent_that_gives_up_on_a_silent_model_has_not_failed_either(desk):
    """It hangs up long before anybody could know whether the model would have answered."""
    ran = run_with(desk, HASTY, *[Hang()] * 2, seconds=2)
    assert (ran.failure.cause, ran.failure.retryable) == ("ModelSilentError", True)
    assert ("when the agent gave up" in ran.failure.message, endings(ran)) == (True, ["agent"])


def test_an_agent_that_hangs_up_on_a_model_that_answers_is_judged(desk):
    """It cannot choose not to be counted by not waiting."""
    ran = run_with(desk, HASTY, Say("a moment later", late=True), seconds=20)
    assert (ran.record.failure, ran.agent.exit_code, endings(ran)) == (None, 0, ["agent"])


@pytest.mark.whole
def test_a_question_at_the_last_moment_changes_nothing(desk):
    ran = run_with(desk, "import time; ask('?'); time.sleep(2.4); ask('!')", Say(), Hang(), seconds=3)
    assert (ran.record.failure, ran.agent.status) == (None, "timed_out")


def test_a_run_that_is_cancelled_while_the_model_thinks_ends(desk):
    async def scenario() -> None:
        async with FakeProvider(Hang()) as fake, provider(fake.base_url) as upstream:
            root = write_task(desk.new_folder() / "task")
            spec, machinery = trial_spec(root, agent("ask('?')")), Machinery(desk.backend, model=access(upstream))
            async with asyncio.TaskGroup() as group:
                running = group.create_task(run_trial(spec, machinery, desk.new_folder()))
                await fake.arrived(1)
                running.cancel()
            assert running.cancelled()

    desk.wait(scenario())


STEPS = {
    "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    **{f"steps/{name}/instruction.md": f"Do {name}.\n" for name in ("one", "two")},
    **{f"steps/{name}/tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n" for name in ("one", "two")},
}


def test_each_step_has_calls_of_its_own_and_the_record_their_sum(desk):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    ran = run(
        desk, "ask(open('/task/instruction.md').read())", access(ScriptedModel([TEN_TOKENS])), toml=toml, files=STEPS
    )
    assert ran.record.failure is None
    found = {path.parent.name: read_calls(path) for path in ran.folder.rglob("calls.jsonl")}
    assert {name: "".join(map(str, conversation(calls, 0))).count(f"Do {name}.") for name, calls in found.items()} == {
        "one": 1,
        "two": 1,
    }
    assert ran.record.model_usage is not None
    assert (ran.record.model_usage.calls, ran.record.model_usage.input_tokens) == (2, 16)
    sessions = {name: trajectory(ran.folder / "steps" / name).session_id for name in ("one", "two")}
    assert sessions == {name: f"{ran.record.trial_id}/{name}" for name in ("one", "two")}


def test_the_providers_key_is_nowhere_in_the_sandbox(desk, monkeypatch):
    """Neither in any environment, nor in any file that the agent can read."""
    monkeypatch.setenv("SEATRIAL_TEST_API_KEY", PROVIDER_KEY)
    half = len(PROVIDER_KEY) // 2
    search = f"""
    import pathlib
    wanted = ({PROVIDER_KEY[:half]!r} + {PROVIDER_KEY[half:]!r}).encode()
    ask("?")
    places = [*pathlib.Path("/proc").glob("[0-9]*/environ"), *pathlib.Path("/proc").glob("[0-9]*/cmdline")]
    for root in ("/app", "/task", "/logs", "/tmp", "/etc", "/run", "/root", "/home", "/var/tmp"):
        places += [path for path in pathlib.Path(root).rglob("*") if path.is_file() and not path.is_symlink()]
    read = 0
    for place in places:
        try:
            found = place.read_bytes()
        except OSError:
            continue
        read += 1
        assert wanted not in found, place
    assert read > 20
    write("right")
    """

    async def scenario() -> Ran:
        async with FakeProvider() as fake, provider(fake.base_url) as upstream:
            root, folder = write_task(desk.new_folder() / "task"), desk.new_folder()
            spec, machinery = (
                trial_spec(root, python_command(AGENT + search)),
                Machinery(desk.backend, model=access(upstream)),
            )
            ran = Ran(await run_trial(spec, machinery, folder), folder)
            assert f"Bearer {PROVIDER_KEY}" in fake.received[0].headers["authorization"]
            return ran

    ran = desk.wait(scenario())
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    assert ran.reward == 1.0
    assert PROVIDER_KEY not in ran.text("calls.jsonl")


def test_the_result_of_an_agent_is_what_it_would_be_without_a_model(desk):
    ran = run(desk, "raise SystemExit(3)", access(ScriptedModel([])))
    assert (ran.agent.exit_code, ran.record.failure) == (3, None)
    assert ran.record.model_usage is not None
    assert (ran.record.model_usage.calls, ran.record.model_usage.cost_usd) == (0, None)
