"""Tasks whose verifiers ask a model, on the command line: from what is refused at planning to what a record shows."""

import json
from pathlib import Path

import pytest

from seatrial.gateway.calls import read_calls
from seatrial.store.job_store import JobStore
from tests.cli.conftest import start
from tests.cli.test_gc_command import why_no_sandbox
from tests.conftest import sampled
from tests.judge.judges import answers
from tests.judged_tasks import NEEDS_KEY, SHAPES, judged_task
from tests.trial.support import write_task

KEY = "sk-provider-key-of-the-user-0123456789"
HERE = ("--image", "host", "--allow-partial-limits")


@pytest.fixture(autouse=True)
def _sandboxes_run_here():
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")


def script(folder: Path, *replies: object) -> str:
    file = folder / "replies.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in replies))
    return f"scripted:{file}"


def test_a_key_is_refused_at_planning_and_the_way_out_is_named(tmp_path):
    judged_task(tmp_path / "tasks/one")
    judged_task(tmp_path / "tasks/two")
    run = ("run", "-p", tmp_path / "tasks", "-a", "oracle", *HERE, "-o", tmp_path / "job")
    for more in ((), ("--allow-env", "OTHER")):
        done = start(*run, *more, OPENAI_API_KEY=KEY)
        assert done.code == 2
        assert "one asks for ${OPENAI_API_KEY}: the verifier asks a model" in done.err
        assert "two asks for" in done.err
        assert "--verifier-upstream UPSTREAM" in done.err
        assert "--allow-env" not in done.err
    assert not (tmp_path / "job").exists()


@pytest.mark.whole
def test_single_end_states_and_regrades_say_so_too(tmp_path):
    task = judged_task(tmp_path / "one")
    done = start("verify", task, *HERE, OPENAI_API_KEY=KEY)
    assert done.code == 2
    assert "OPENAI_API_KEY (for one): the verifier asks a model" in done.err
    assert "--verifier-upstream UPSTREAM" in done.err


def test_an_empty_default_is_told(tmp_path):
    task = judged_task(tmp_path / "one", NEEDS_KEY.replace("{OPENAI_API_KEY}", "{OPENAI_API_KEY:-}"))
    run = ("run", "-p", task, "-a", "oracle", *HERE)
    done = start(*run, "-o", tmp_path / "job")
    assert "OPENAI_API_KEY (for one): verifiers that would ask a model have no key for it; --verifier-up" in done.err
    upstream = script(tmp_path, "yes")
    assert "OPENAI_API_KEY" not in start(*run, "-o", tmp_path / "again", "--verifier-upstream", upstream).err


@pytest.mark.whole
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--verifier-model", "a=b"), "--verifier-model: no verifier can ask a model without --verifier-upstream"),
        (("--verifier-max-tokens", "7"), "--verifier-max-tokens: no verifier can ask"),
        (("--verifier-upstream", "nowhere"), "nowhere"),
        (("--verifier-upstream", "scripted:x", "--verifier-model", "a"), "a"),
    ],
    ids=["name", "limit", "upstream", "half a name"],
)
def test_what_cannot_be_used_is_refused(tmp_path, more, said):
    task = judged_task(tmp_path / "one")
    done = start("run", "-p", task, "-a", "oracle", *HERE, "-o", tmp_path / "job", *more)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("shape", sampled(SHAPES))
def test_the_users_key_is_nowhere_and_the_usage_is(tmp_path, shape):
    toml, files = SHAPES[shape]
    task = judged_task(tmp_path / "one", toml, files)
    upstream = script(tmp_path, {"text": "yes", "usage": {"input_tokens": 80, "output_tokens": 20}})
    command = ("--command", "env; echo right > /app/answer.txt")
    run = ("run", "-p", task, *command, *HERE, "-o", tmp_path / "job", "--verifier-upstream", upstream)
    done = start(*run, "--verifier-model", "judge-1=gpt-5-mini", OPENAI_API_KEY=KEY, VLM_API_KEY=KEY)
    assert done.code == 0, done.err
    (entry,) = JobStore.open(tmp_path / "job").entries()
    assert (entry.reward, entry.verifier_calls, entry.verifier_input_tokens) == (1.0, 1, 80)
    assert entry.model_calls is None
    files_of_job = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
    assert not [path for path in files_of_job if KEY.encode() in path.read_bytes()]
    assert "API_KEY" not in (tmp_path / "job/trials/one.command.1/agent/stdout.txt").read_text()
    trial = start("show", tmp_path / "job", "command")
    assert "1 call, 80 tokens in, 20 out" in trial.out
    assert "command (verifiers)" in start("show", tmp_path / "job").out
    if shape == "openai":
        assert "gpt-5-mini (asked for as judge-1)" in trial.out


def test_a_cache_makes_repeats_regrades_and_single_states_free(tmp_path):
    task, job = judged_task(tmp_path / "one"), tmp_path / "job"
    cached = f"cache:{tmp_path / 'cache'},{script(tmp_path, 'yes')}"
    first = start("run", "-p", task, "-a", "oracle", *HERE, "-o", job, "--verifier-upstream", cached)
    assert first.code == 0, first.err
    (tmp_path / "replies.jsonl").write_text('{"error": {"status": 503, "message": "not asked any more"}}\n')
    assert start("regrade", job, "--repeat", 2).code == 0
    (entry,) = JobStore.open(job).entries()
    assert (entry.revision, entry.reward, entry.repeats, entry.verifier_calls) == (1, 1.0, (1.0, 1.0), 2)
    state = ("--state", job / "trials/one.oracle.1", "--expect", 1, *HERE)
    assert start("verify", task, *state, "--verifier-upstream", cached).code == 0


@pytest.mark.whole
def test_a_regrade_may_have_another_judge_whose_failure_leaves_the_verdict(tmp_path):
    task, job = judged_task(tmp_path / "one"), tmp_path / "job"
    run = ("run", "-p", task, "-a", "oracle", *HERE, "-o", job, "--verifier-upstream", script(tmp_path, "yes"))
    assert start(*run).code == 0
    other = tmp_path / "other.jsonl"
    other.write_text('{"error": {"status": 503, "message": "out of order"}}\n')
    done = start("regrade", job, "--verifier-upstream", f"scripted:{other}")
    assert done.code == 1
    assert "out of order" in done.err
    assert [(each.revision, each.reward) for each in JobStore.open(job).entries()] == [(0, 1.0)]
    other.write_text('"no"\n')
    assert start("regrade", job, "--verifier-upstream", f"scripted:{other}").code == 0
    (entry,) = JobStore.open(job).entries()
    assert (entry.revision, entry.reward) == (1, 0.0)


@pytest.mark.whole
def test_a_failed_provider_is_tried_again_when_the_job_is_resumed(tmp_path):
    task, job = judged_task(tmp_path / "one"), tmp_path / "job"
    upstream = script(tmp_path, {"error": {"status": 503, "message": "out of order"}})
    run = ("run", "-p", task, "-a", "oracle", *HERE, "-o", job, "--retries", 0, "--verifier-upstream", upstream)
    assert start(*run).code == 1
    assert [entry.outcome for entry in JobStore.open(job).entries()] == ["infrastructure_error"]
    script(tmp_path, "yes")
    assert start("resume", job, "--retry-failed").code == 0
    assert [entry.reward for entry in JobStore.open(job).entries()] == [1.0]


@pytest.mark.whole
def test_another_judge_makes_another_reward_to_a_comparison(tmp_path):
    task, upstream = judged_task(tmp_path / "one"), script(tmp_path, "yes")
    for name, more in (("a", ()), ("b", ("--verifier-model", "judge-1=judge-2"))):
        run = ("run", "-p", task, "-a", "oracle", *HERE, "-o", tmp_path / name, "--verifier-upstream", upstream)
        assert start(*run, *more).code == 0
    done = start("compare", tmp_path / "a", tmp_path / "b")
    assert "verifier_models" in done.out + done.err


@pytest.mark.whole
def test_a_check_asks_the_model_as_well(tmp_path):
    task = judged_task(tmp_path / "one")
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": [{"when": {"contains": "right? right"}, "say": "yes"}, {"say": "no"}]}))
    check = ("check", task, "--only", "V1,V2", "--allow-partial-limits", "--image", "host", "-o", tmp_path / "checks")
    done = start(*check, "--verifier-upstream", f"scripted:{rules}")
    assert done.code == 0, done.out + done.err


def test_a_task_with_a_rubric_alone_is_graded_by_a_judge(tmp_path):
    rubric = '[[question]]\nid = "right"\ntext = "Does it say right?"\n'
    solve = {"solution/solve.sh": "#!/bin/sh\necho right > /app/answer.txt\n"}
    task = write_task(tmp_path / "one", files={"tests/rubric.toml": rubric, **solve})
    (task / "tests/test.sh").unlink()
    assert start("lint", task).code == 0
    run = ("run", "-p", task, "-a", "oracle", *HERE, "-o", tmp_path / "job")
    done = start(*run)
    assert done.code == 2
    assert "one asks for a judge that answers tests/rubric.toml; --verifier-upstream" in done.err
    upstream = script(tmp_path, answers(right=True), answers(addresses_evaluator=False))
    done = start(*run, "--verifier-upstream", upstream)
    assert done.code == 2
    assert "--verifier-model judge=MODEL" in done.err
    named = ("--verifier-upstream", upstream, "--verifier-model", "judge=judge-1")
    done = start(*run, *named)
    assert done.code == 0, done.err
    folder = tmp_path / "job/trials/one.oracle.1/verifier"
    assert json.loads((folder / "files/reward.json").read_text()) == {"reward": 1.0}
    assert len(list(read_calls(folder / "calls.jsonl"))) == 2
    assert start("regrade", tmp_path / "job").code == 0


@pytest.mark.whole
def test_no_model_judges_its_own_work_by_accident(tmp_path):
    rubric = '[judge]\nmodel = "gpt-5-mini"\n[[question]]\nid = "right"\ntext = "Does it say right?"\n'
    task = write_task(tmp_path / "one", files={"tests/rubric.toml": rubric})
    (task / "tests/test.sh").unlink()
    upstream = script(tmp_path, answers(right=True), answers(addresses_evaluator=False))
    agent = (
        "--command",
        "true",
        "-m",
        "openai/gpt-5-mini-2026-01-01",
        "--upstream",
        upstream,
        "--no-preflight",
        "--keep-going",
    )
    run = ("run", "-p", task, *agent, *HERE, "-o", tmp_path / "job", "--verifier-upstream", upstream)
    done = start(*run)
    assert done.code == 2
    assert "the judge gpt-5-mini, which is the model of the agent 'command'" in done.err
    assert start(*run, "--verifier-model", "gpt-5-mini=gpt-5-mini").code == 0
