"""Verifiers that ask a model: what they find, what is kept of it, and whose failure a failed call is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seatrial.errors import ListenerError
from seatrial.gateway.access import ModelAccess
from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.calls import read_calls
from seatrial.gateway.prices import ModelPrice, PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.testing.fake_provider import Fail, FakeProvider, Step
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from tests.judged_tasks import NEEDS_KEY, OPENAI, SHAPES, judged_task
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import ANSWER, Desk, Ran, trial_spec

pytestmark = needs_python

PROVIDER_KEY = "sk-provider-key-0123456789"
PRICES = PriceTable(models={"judge-1": ModelPrice(input=1.0, output=2.0), "m": ModelPrice(input=1.0, output=1.0)})
YES: dict[str, Any] = {"text": "Yes, it is.", "usage": {"input_tokens": 8, "output_tokens": 2}}
NO: dict[str, Any] = {"text": "No.", "usage": {"input_tokens": 8, "output_tokens": 2}}
UPSTREAM = "scripted:judge.jsonl"
DOWN = {"error": {"status": 503, "message": "out of order"}}


def access(upstream: Upstream, **options: Any) -> ModelAccess:
    return ModelAccess(upstream, SessionOptions(caller="verifier", **options), PRICES)


def run(desk: Desk, *replies: Any, toml: str = NEEDS_KEY, agent: str = f"echo right > {ANSWER}", **more: Any) -> Ran:
    """Run a trial whose verifier gets these replies from its model; `more` are options of the session or the trial."""
    files = more.pop("files", OPENAI)
    limits = {name: more.pop(name) for name in ("models", "max_tokens", "max_cost_usd") if name in more}
    task = judged_task(desk.new_folder() / "task", toml, files)
    spec = trial_spec(task, agent, verifier_upstream=UPSTREAM, **more)
    return desk.run_spec(spec, verifier_model=access(ScriptedModel(list(replies)), **limits))


@pytest.mark.parametrize("shape", SHAPES)
def test_verifiers_of_every_shape_find_their_model(desk: Desk, shape: str) -> None:
    toml, files = SHAPES[shape]
    ran = run(desk, YES, toml=toml, files=files)
    assert ran.reward == 1.0, ran.text("verifier/stdout.txt")
    (call,) = read_calls(ran.folder / "verifier/calls.jsonl")
    assert call.messages == [{"role": "user", "content": "Is this right? right\n"}]
    assert ran.run.models == {call.model: call.model}


def test_what_a_verifier_uses_is_counted_apart_from_the_agent(desk: Desk) -> None:
    ran = run(desk, YES)
    used = ran.record.verifier_usage
    assert used is not None
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 8, 2)
    assert used.cost_usd == pytest.approx(12e-6)
    assert ran.record.model_usage is None
    assert not (ran.folder / "calls.jsonl").exists()


def test_a_verifier_gets_the_models_no(desk: Desk) -> None:
    assert run(desk, NO).reward == 0.0


def test_the_agent_has_neither_key_nor_address(desk: Desk) -> None:
    ran = run(desk, YES, agent=f"env; echo right > {ANSWER}")
    assert "KEY=" not in ran.text("agent/stdout.txt")
    assert "BASE_URL=" not in ran.text("agent/stdout.txt")


def test_without_an_upstream_there_is_nothing_of_it(desk: Desk) -> None:
    files = {"tests/test.sh": "#!/bin/sh\nenv > /logs/verifier/env.txt; echo 1 > /logs/verifier/reward.txt\n"}
    ran = desk.run(judged_task(desk.new_folder() / "task", "", files))
    assert "KEY=" not in ran.text("verifier/files/env.txt")
    assert not (ran.folder / "verifier/calls.jsonl").exists()
    assert ran.record.verifier_usage is None


def test_what_the_task_says_literally_stays_and_templates_are_the_sessions(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", PROVIDER_KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example/v1")
    toml = (
        '[verifier.env]\nOPENAI_API_KEY = "${OPENAI_API_KEY:-none}"\nJUDGE_KEY = "${MY_JUDGE_MODEL_API_KEY}"\n'
        'OPENAI_BASE_URL = "${OPENAI_BASE_URL}"\nANTHROPIC_BASE_URL = "https://own.example"\nOTHER = "${OTHER:-usual}"'
    )
    files = {"tests/test.sh": "#!/bin/sh\nenv > /logs/verifier/env.txt; echo 1 > /logs/verifier/reward.txt\n"}
    ran = run(desk, toml=toml, files=files, allow_env=("OPENAI_BASE_URL",))
    found = dict(line.split("=", 1) for line in ran.text("verifier/files/env.txt").splitlines() if "=" in line)
    assert found["OPENAI_API_KEY"].startswith("st-")
    assert found["JUDGE_KEY"] == found["OPENAI_API_KEY"] == found["GEMINI_API_KEY"]
    assert found["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert (found["ANTHROPIC_BASE_URL"], found["OTHER"]) == ("https://own.example", "usual")


def test_a_model_is_mapped_on_purpose_only_and_the_record_says_so(desk: Desk) -> None:
    ran = run(desk, YES, models={"judge-1": "m"})
    assert ran.run.models == {"judge-1": "m"}
    (call,) = read_calls(ran.folder / "verifier/calls.jsonl")
    assert (call.model, call.upstream_model) == ("judge-1", "m")
    assert run(desk, YES, models={"another": "m"}).run.models == {"judge-1": "judge-1"}


def test_a_provider_that_fails_is_no_verdict_whatever_was_written(desk: Desk) -> None:
    """The verifier takes the error for a no, and writes 0."""
    ran = run(desk, DOWN)
    assert (ran.failure.phase, ran.failure.cause, ran.failure.kind) == ("verify", "ProviderError", "infrastructure")
    assert ran.record.evaluation is None


async def _against(provider: FakeProvider, desk: Desk) -> Ran:
    folder = desk.new_folder()
    spec = trial_spec(judged_task(folder / "task"), f"echo right > {ANSWER}", verifier_upstream="https://x")
    async with provider:
        settings = ProviderOptions(base_url=provider.base_url, api_key_var="KEY", retries=0)
        async with HttpProvider(settings, environ={"KEY": PROVIDER_KEY}) as upstream:
            machinery = Machinery(desk.backend, verifier_model=access(upstream))
            return Ran(await run_trial(spec, machinery, folder), folder)


@pytest.mark.parametrize(
    ("step", "cause", "retryable", "said"),
    [
        (Fail(503), "ProviderError", True, "answered 503"),
        (Fail(401), "ProviderError", False, "answered 401"),
        (Fail(404, "no such model"), "VerifierModelError", False, "--verifier-model"),
        (Fail(400, "Your credit balance is too low"), "VerifierModelError", False, "credit balance"),
        (Fail(400, "m-1 is not a valid model ID"), "VerifierModelError", False, "--verifier-model"),
        (Fail(410, "gone"), "VerifierModelError", False, "--verifier-model"),
    ],
    ids=["down", "wrong key", "unknown model", "no money", "no such name", "gone"],
)
def test_providers_that_refuse_everything_leave_no_verdict(
    desk: Desk, step: Step, cause: str, retryable: bool, said: str
) -> None:
    ran = desk.wait(_against(FakeProvider(otherwise=step), desk))
    assert (ran.failure.phase, ran.failure.cause) == ("verify", cause)
    assert ran.failure.retryable == retryable
    assert said in ran.failure.message
    kept = [
        path for path in ran.folder.rglob("*") if path.is_file() and PROVIDER_KEY in path.read_text(errors="replace")
    ]
    assert not kept


def test_a_request_that_only_its_content_makes_bad_is_the_verifiers_business(desk: Desk) -> None:
    """Else an agent could have its trial void by writing what no model takes."""
    ran = desk.wait(_against(FakeProvider(otherwise=Fail(400, "the prompt is too long")), desk))
    assert ran.record.failure is None
    assert ran.reward == 0.0


def test_a_verifier_that_is_refused_for_its_budget_has_no_verdict(desk: Desk) -> None:
    twice = {**OPENAI, "tests/test.sh": "#!/bin/sh\npython3 /tests/ask.py; python3 /tests/ask.py\n"}
    ran = run(desk, YES, YES, files=twice, max_tokens=10)
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("verify", "VerifierModelError", False)
    assert "the limit of 10 tokens" in ran.failure.message
    assert ran.record.verifier_usage is not None
    assert ran.record.verifier_usage.calls == 1


def test_a_cost_that_nobody_knows_cannot_be_limited(desk: Desk) -> None:
    ran = run(desk, YES, models={"judge-1": "unheard-of"}, max_cost_usd=1.0)
    assert "the cost of 'unheard-of' is not known" in ran.failure.message


def test_each_verification_has_a_session_of_its_own(desk: Desk) -> None:
    """Repeats begin at the first line of the script, and their calls are beside what they printed."""
    ran = run(desk, YES, verify_repeats=3)
    assert (ran.reward, ran.run.repeats) == (1.0, (1.0, 1.0, 1.0))
    assert ran.record.verifier_usage is not None
    assert ran.record.verifier_usage.calls == 3
    for name in ("verifier", "verifier/repeat-2", "verifier/repeat-3"):
        assert len(list(read_calls(ran.folder / name / "calls.jsonl"))) == 1


def test_a_second_verification_asks_again(desk: Desk) -> None:
    """The agent replaced a program of the system, so that its no is asked once more on the system as it was left."""
    ran = run(desk, NO, agent=f"echo wrong > {ANSWER}; echo '#' >> /etc/profile; echo x > /usr/local/bin/cat")
    assert ran.run.appeal is not None
    assert ran.record.verifier_usage is not None
    assert (ran.record.verifier_usage.calls or 0) >= 2
    assert (ran.folder / "verifier/as-left/calls.jsonl").is_file()


def test_work_that_comes_with_another_key_of_its_own_voids_nothing(desk: Desk) -> None:
    """Tests that execute the work give it their variables; the task itself asks no model."""
    ask = "import os, urllib.request as u; u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', "
    ask += "b'{}', {'Authorization': 'Bearer sk-wrong'}))"
    tests = {"tests/test.sh": f"#!/bin/sh\npython3 {ANSWER}\necho 0 > /logs/verifier/reward.txt\n"}
    toml = '[environment]\nnetwork_mode = "no-network"\n'
    ran = run(desk, YES, toml=toml, files=tests, agent=f'echo "{ask}" > {ANSWER}')
    assert ran.record.failure is None
    assert ran.reward == 0.0
    assert "401" in ran.text("verifier/stderr.txt")


def test_a_second_verification_without_its_model_leaves_the_first_verdict(desk: Desk) -> None:
    """The agent's files are at work in it, and may spend its budget or send another key."""
    wrong = "import os; os.environ['OPENAI_API_KEY'] = 'sk-wrong'"
    library = "python3 -c \"import sysconfig; print(sysconfig.get_paths()['stdlib'])\""
    ran = run(desk, NO, NO, agent=f'echo wrong > {ANSWER}; echo "{wrong}" > "$({library})/sitecustomize.py"')
    assert ran.record.failure is None
    assert (ran.reward, ran.run.appeal) == (0.0, None)
    assert (ran.folder / "verifier/as-left").is_dir()


def test_a_separate_verifier_has_it_too(desk: Desk) -> None:
    toml = (
        '[environment]\nnetwork_mode = "no-network"\n[verifier]\nenvironment_mode = "separate"\n[verifier.env]\n'
        'MODEL_NAME = "judge-1"\n[verifier.environment]\nnetwork_mode = "no-network"\n[verifier.environment.env]\n'
        'OPENAI_API_KEY = "${OPENAI_API_KEY}"\nPLAIN = "there"\n'
    )
    toml = f'artifacts = ["{ANSWER}"]\n{toml}'
    ran = run(desk, YES, toml=toml)
    assert (ran.reward, ran.run.isolation) == (1.0, "separate"), ran.text("verifier/stdout.txt")


def test_steps_ask_each_for_itself(desk: Desk) -> None:
    toml = (
        '[environment]\nnetwork_mode = "no-network"\n'
        '[[steps]]\nname = "one"\n[steps.verifier.env]\nOPENAI_API_KEY = "${OPENAI_API_KEY}"\nMODEL_NAME = "judge-1"\n'
        '[[steps]]\nname = "two"\n[steps.verifier.env]\nOPENAI_API_KEY = "${OPENAI_API_KEY}"\nMODEL_NAME = "m"\n'
    )
    steps = {f"steps/{name}/instruction.md": "Do it.\n" for name in ("one", "two")}
    ran = run(desk, YES, toml=toml, files={**OPENAI, **steps})
    assert [step.verifier_run.models for step in ran.record.steps if step.verifier_run] == [
        {"judge-1": "judge-1"},
        {"m": "m"},
    ]
    assert ran.record.verifier_usage is not None
    assert ran.record.verifier_usage.calls == 2


def test_only_the_sessions_own_key_opens_it_and_a_task_with_another_has_no_verdict(desk: Desk) -> None:
    ran = run(desk, YES, toml=NEEDS_KEY.replace("${OPENAI_API_KEY}", "sk-of-the-task"))
    assert (ran.failure.cause, ran.failure.retryable) == ("VerifierModelError", False)
    assert "another key than that of its session" in ran.failure.message
    assert not (ran.folder / "verifier/calls.jsonl").exists()


class _BlockedOnce:
    """A model that cannot be reached by the first verification, for what connects to the gateway besides it."""

    def __init__(self) -> None:
        self.dialects = ScriptedModel([]).dialects
        self.asked = 0

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.asked += 1
        if self.asked == 1:
            raise ListenerError("the gateway cannot accept connections")
        async with ScriptedModel([YES]).ask(request) as reply:
            yield reply


@needs_root
@pytest.mark.parametrize(
    ("leaves", "isolation", "failed"),
    [("sleep 1000 > /dev/null 2>&1 &", "kill", False), ("", None, True)],
    ids=["a process runs on", "nobody else is there"],
)
def test_what_an_agents_process_may_have_blocked_is_asked_without_it(
    desk: Desk, leaves: str, isolation: str | None, *, failed: bool
) -> None:
    agent = f"echo right > {ANSWER}; {leaves}"
    spec = trial_spec(judged_task(desk.new_folder() / "task"), agent, verifier_upstream=UPSTREAM)
    ran = desk.run_spec(spec, verifier_model=access(_BlockedOnce()))
    assert bool(ran.record.failure) is failed
    if not failed:
        assert (ran.reward, ran.run.isolation) == (1.0, isolation)
