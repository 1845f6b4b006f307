"""The model of a job: checked before anything starts, opened once, and with every trial."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.gateway.calls import read_calls
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.jobs.machinery import check_model, model_access, model_notices, with_upstream
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from tests.trial.support import ANSWER, write_task

ASK = f"""/usr/bin/python3 -I -c '
import json, os, urllib.request
body = json.dumps({{"model": "m", "messages": [{{"role": "user", "content": "?"}}]}}).encode()
headers = {{"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
answer = json.load(urllib.request.urlopen(request))
open("{ANSWER}", "w").write(answer["choices"][0]["message"]["content"])
'"""


AGENTS = (AgentOptions(name="noop", model="nobody-s-model"),)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "script.json").write_text('["right"]')
    return f"scripted:{tmp_path}/script.json"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"upstream": "nobody"}, "there is no upstream 'nobody'"),
        ({"upstream": "scripted:/nowhere.json"}, "cannot be read"),
        ({"upstream": "http://localhost/v1,key=SEATRIAL_NO_SUCH_KEY"}, "set the variable SEATRIAL_NO_SUCH_KEY"),
        ({"prices": "/nowhere.toml"}, "nowhere.toml"),
        ({"upstream": "http://localhost/v1", "max_cost_usd": 1.0}, "the cost of nobody-s-model is not known"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_starts(make_job, tmp_path, options, reason):
    with pytest.raises(UsageError, match=reason):
        check_model(ModelOptions(**options), AGENTS)
    with pytest.raises(UsageError, match=reason):
        make_job(model=ModelOptions(**options), agents=AGENTS)
    assert not (tmp_path / "job").exists()


def test_a_job_without_a_model_needs_nothing():
    async def scenario() -> None:
        check_model(ModelOptions(), AGENTS)
        async with model_access(ModelOptions()) as access:
            assert access is None

    asyncio.run(scenario())


def test_limits_sampling_and_prices_of_a_job_are_those_of_its_trials(tmp_path, script):
    prices = tmp_path / "prices.toml"
    prices.write_text('noted = 2026-01-01\n[models]\n"mine" = { input = 1.0, output = 2.0 }\n')
    options = ModelOptions(
        upstream=script,
        temperature=0.5,
        max_output_tokens=77,
        max_turns=3,
        max_tokens=400,
        max_cost_usd=0.25,
        prices=str(prices),
        translate="strict",
    )

    async def scenario() -> None:
        async with model_access(options) as access:
            assert access is not None
            sampling = {"temperature": 0.5, "max_tokens": 77}
            limits = SessionOptions(sampling=sampling, max_turns=3, max_tokens=400, max_cost_usd=0.25)
            assert access.options == replace(limits, translation="strict")
            assert {"mine", "gpt-5"} <= set(access.prices.models)

    asyncio.run(scenario())


def test_the_upstream_is_open_as_long_as_the_block_and_no_longer():
    async def scenario() -> None:
        async with model_access(ModelOptions(upstream="http://127.0.0.1:9/v1")) as access:
            assert access is not None
            assert isinstance(access.upstream, HttpProvider)
            with pytest.raises(RuntimeError, match="open already"):
                await access.upstream.__aenter__()
        async with access.upstream:
            pass

    asyncio.run(scenario())


def job(tmp_path: Path, upstream: str, attempts: int = 1, retries: int = 0) -> JobSpec:
    write_task(tmp_path / "tasks/ask")
    return JobSpec(
        name="ask",
        tasks=(str(tmp_path / "tasks"),),
        agents=(AgentOptions(name="command", command=ASK, model="gpt-5"),),
        attempts=attempts,
        trial=TrialOptions(image="host"),
        model=ModelOptions(upstream=upstream),
        run=RunOptions(retries=retries),
    )


def test_a_job_asks_its_model_and_keeps_the_calls_of_every_trial(tmp_path, script):
    outcome = asyncio.run(run_prepared(prepare_job(job(tmp_path, script, attempts=2), tmp_path / "job")))
    store = outcome.store
    assert [entry.reward for entry in store.entries()] == [1.0, 1.0]
    for entry in store.entries():
        (call,) = read_calls(store.trial_folder(entry.trial_id) / "calls.jsonl")
        assert (call.model, call.upstream_model) == ("m", "gpt-5")
        used = store.record(entry.trial_id).model_usage
        assert used is not None
        assert used.cost_usd


def test_a_script_that_runs_out_is_an_infrastructure_failure_that_is_not_tried_again(tmp_path):
    (tmp_path / "script.json").write_text("[]")
    spec = job(tmp_path, f"scripted:{tmp_path}/script.json", retries=2)
    outcome = asyncio.run(run_prepared(prepare_job(spec, tmp_path / "job")))
    (entry,) = outcome.store.entries()
    kept = outcome.store.record(entry.trial_id)
    assert kept.failure is not None
    assert (entry.outcome, kept.failure.cause, kept.tries) == ("infrastructure_error", "ProviderError", 1)


def test_an_earlier_trial_is_replayed_exactly(tmp_path, script):
    first = asyncio.run(run_prepared(prepare_job(job(tmp_path, script), tmp_path / "job"))).store
    calls = first.trial_folder(first.entries()[0].trial_id) / "calls.jsonl"
    again = asyncio.run(run_prepared(prepare_job(job(tmp_path, f"replay:{calls}"), tmp_path / "again"))).store
    assert [entry.reward for entry in again.entries()] == [1.0]
    replayed = again.trial_folder(again.entries()[0].trial_id) / "calls.jsonl"
    answers = [[json.loads(line)["response"] for line in path.read_text().splitlines()] for path in (calls, replayed)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("agent", "upstream", "told"),
    [
        (AgentOptions(name="command", command="x", model="m"), None, True),
        (AgentOptions(name="command", command="x", model="m"), "openai", False),
        (AgentOptions(name="command", command="x"), None, False),
        (AgentOptions(name="oracle", model="m"), None, False),
    ],
)
def test_a_model_without_a_way_to_it_is_noted(agent: AgentOptions, upstream: str | None, told: bool):
    spec = JobSpec(name="j", tasks=("/t",), agents=(agent,), model=ModelOptions(upstream=upstream))
    notices = model_notices(spec)
    assert bool(notices) is told
    assert all("add --upstream openai" in line for line in notices)


@pytest.mark.parametrize(
    ("models", "upstream"),
    [(["claude-x"], "anthropic"), (["openai/x", "gpt-5"], "openai"), (["google/gemini-3"], "google")],
)
def test_where_a_preset_finds_its_model_may_be_told_by_its_name(models, upstream):
    agents = [AgentOptions(name="codex", label=model, model=model) for model in models]
    assert with_upstream(ModelOptions(seed=1), agents) == ModelOptions(seed=1, upstream=upstream)
    assert with_upstream(ModelOptions(upstream="http://h/v1"), agents).upstream == "http://h/v1"


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([None], "the agent 'codex' needs a model; name one with -m MODEL"),
        (["llama"], "the name llama does not say where it is; add --upstream openai"),
        (["gpt-5", "claude-x"], "the name claude-x, gpt-5 does not say where it is"),
    ],
)
def test_a_preset_without_a_way_to_a_model_is_refused(models, said):
    agents = [AgentOptions(name="codex", model=model) for model in models]
    with pytest.raises(UsageError, match=said):
        with_upstream(ModelOptions(), agents)


def test_who_needs_no_model_gets_none():
    agents = [AgentOptions(name="oracle"), AgentOptions(name="command", command="x", model="gpt-5")]
    assert with_upstream(ModelOptions(), agents) == ModelOptions()


def test_the_choice_is_kept_with_the_job_and_said(make_job, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    job = make_job(agents=(AgentOptions(name="codex", model="openai/gpt-5"),))
    spec = job.store.file.spec
    assert spec.model.upstream == "openai"
    assert spec.agents[0].preset is not None
    assert any("model calls go to openai, by the name of the model" in notice for notice in job.notices)
