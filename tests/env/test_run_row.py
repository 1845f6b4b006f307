"""A row is rolled out where its environment was sent: here, or in another process that has nothing of this one."""

import asyncio
import itertools
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from threading import Lock

import pytest

import seatrial as vf
from seatrial.env.results import Output
from seatrial.env.rollout import RolloutPlace
from seatrial.env.run_row import RowPlan, RowResult, compare, run_row
from tests.env.games import ROWS, Guessing, counting
from tests.env.worlds import cli_env, echo, evaluate, harbor_env, idle, make_tasks, real_agent, world


class Own(vf.HarborEnv):
    """With a hook that reaches its sandbox."""

    async def post_sandbox_setup(self, state):
        await super().post_sandbox_setup(state)
        await self.sandbox_client.upload_content(state["sandbox_id"], "right", "/app/answer.txt")


def run_sent(sent: bytes) -> bytes:
    """What the other process does with an environment, a row and a plan."""
    return pickle.dumps(asyncio.run(run_row(*pickle.loads(sent))))  # noqa: S301 - our own


def elsewhere(environment, row, plan) -> RowResult:
    """The result of a row that was rolled out in a process that was started anew."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        sent = pickle.dumps((environment, row, plan))
        result: RowResult = pickle.loads(pool.submit(run_sent, sent).result(60))  # noqa: S301 - our own
    return result


@pytest.mark.whole
def test_a_trial_is_rolled_out_in_another_process(tmp_path):
    env = Own(real_agent("ask('What shall I write?')"), make_tasks(tmp_path / "tasks"), image="host")
    (row,) = env.get_dataset()
    here = replace(env.trial_spec(row, "gpt-4"), trial_id="task_1.command.1", job="nightly", company="none")
    folder = tmp_path / "trial"
    folder.mkdir()
    result = elsewhere(env, row, RowPlan(echo, "gpt-4", {}, ("harbor_task_dir",), RolloutPlace(here, folder)))
    assert (result.output["error"], result.output["reward"], result.output["outcome"]) == (None, 1.0, "pass")
    assert result.output["completion"] == [{"role": "assistant", "content": "you said What shall I write?"}]
    assert result.output["trajectory"][0]["prompt"] == [{"role": "user", "content": "What shall I write?"}]
    assert result.record is not None
    assert (result.record.trial_id, result.record.job) == ("task_1.command.1", "nightly")
    assert (folder / "calls.jsonl").exists()
    assert (folder / "agent/stdout.txt").exists()


def test_the_task_is_where_the_place_says(tmp_path):
    env = harbor_env(make_tasks(tmp_path / "tasks"))
    (row,) = env.get_dataset()
    spec = env.trial_spec(row, "m")
    moved = (tmp_path / "tasks/task_1").rename(tmp_path / "moved")
    layout = harbor_env(tmp_path / "moved").trial_spec({**row, "info": {"task_dir": str(moved)}}, "m").task.layout
    task = spec.task.model_copy(update={"root": moved, "layout": layout})
    place = RolloutPlace(replace(spec, task=task), tmp_path)
    result = asyncio.run(run_row(env, row, RowPlan(echo, "m", {}, ("harbor_task_dir",), place)))
    assert (result.output["error"], result.output["reward"]) == (None, 1.0)
    assert result.output["harbor_task_dir"] == str(moved)


def test_a_rollout_that_is_no_trial_has_no_record():
    result = asyncio.run(run_row(Guessing(), ROWS[0], RowPlan(counting, "m", {}, ("model",))))
    assert (result.output["reward"], result.output["model"], result.record) == (1.0, "m", None)


def test_a_trial_that_nobody_judged_has_a_record_that_says_so(tmp_path):
    class Forgetful(vf.HarborEnv):
        async def post_rollout(self, state):
            pass

    env = harbor_env(make_tasks(tmp_path / "tasks"), Forgetful, score_rollouts=False)
    (row,) = env.get_dataset()
    place = RolloutPlace(env.trial_spec(row, "m"), tmp_path)
    result = asyncio.run(run_row(env, row, RowPlan(echo, "m", {}, place=place)))
    assert result.record is not None
    assert result.record.failure is not None
    assert "was not judged" in result.record.failure.message


def sent(environment):
    return pickle.loads(pickle.dumps(environment))  # noqa: S301 - our own


def test_an_environment_that_is_in_use_can_be_sent(tmp_path):
    async def scenario():
        env = Own("true", make_tasks(tmp_path), image="host", env_id="mine", memory_gb=1)
        async with env, env._sandboxes.backend.use():
            return env, sent(env)

    env, other = asyncio.run(scenario())
    assert other.get_dataset() == env.get_dataset()
    assert other._sandboxes.settings == env._sandboxes.settings
    assert other.sandbox_client is other._sandboxes.client is not env.sandbox_client
    functions = other.rubric.get_reward_funcs()
    assert (functions[0], len(functions)) == (other.harbor_reward, len(env.rubric.get_reward_funcs()))
    assert other.env_id == "mine"


@pytest.mark.parametrize("make", [cli_env, lambda: vf.SandboxEnv(dataset=ROWS, backend=world())])
def test_one_with_an_open_backend_says_what_to_do(make):
    with pytest.raises(vf.UsageError, match="backend='embedded'"):
        pickle.dumps(make())


def test_a_client_is_sent_with_its_key_and_shows_it_to_nobody(monkeypatch):
    monkeypatch.setenv("MINE", "secret")
    config = sent(vf.ClientConfig(base_url="http://localhost:1/v1", api_key_var="MINE").with_key())
    monkeypatch.delenv("MINE")
    assert config.api_key == "secret"
    assert "secret" not in repr(config)
    config.provider()
    plain = vf.ClientConfig(base_url="http://localhost:1/v1")
    assert plain.with_key() is plain


@pytest.mark.parametrize(("odd", "message"), [({"info": "not JSON"}, "info is text"), ({"lock": Lock()}, "lock")])
def test_a_row_that_no_state_can_be_made_of_is_an_error_of_its_own(odd, message):
    rows = [ROWS[0], {**ROWS[1], "task": "odd", **odd}]
    env = Guessing(max_turns=1, dataset=rows)
    first, second = env.evaluate_sync(counting, "m")["outputs"]
    assert first["error"] is None
    assert message in second["error"]["message"]
    assert (second["task"], second["example_id"], second["reward"]) == ("odd", 1, None)


class Ranking(vf.Rubric):
    """Each rollout gets its place in the group; a rubric that needs all of them."""

    def __init__(self):
        super().__init__()
        self.groups = []
        self.cleaned = []

    async def score_group(self, states):
        self.groups.append(states)
        for place, state in enumerate(states):
            state["reward"], state["metrics"] = float(place), {"place": float(place)}

    async def cleanup(self, state):
        self.cleaned.append(state["example_id"])


class Sinking(Guessing):
    """Every other rollout has no sandbox."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.begun = 0

    async def setup_state(self, state):
        self.begun += 1
        state["mine"] = "kept"
        if self.begun % 2:
            raise vf.SandboxError("gone")


def test_the_rollouts_of_a_row_are_scored_together():
    rubric = Ranking()
    env = Guessing(max_turns=1, rubric=rubric)
    assert env.requires_group_rollouts
    results = env.evaluate_sync(counting, "m", rollouts_per_example=3, max_concurrent=2)
    assert [len(group) for group in rubric.groups] == [3, 3, 3]
    assert [output["reward"] for output in results["outputs"]] == [0.0, 1.0, 2.0] * 3
    assert [output["advantage"] for output in results["outputs"]] == [-1.0, 0.0, 1.0] * 3
    assert results["outputs"][2]["metrics"] == {"place": 2.0, "num_turns": 1.0}
    assert results["outputs"][2]["place"] == 2.0
    assert sorted(rubric.cleaned) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert results["metadata"]["avg_reward"] == 1.0


def test_one_that_fails_takes_no_other_with_it():
    rubric = Ranking()
    env = Sinking(max_turns=1, rubric=rubric, dataset=ROWS[:1])
    outputs = env.evaluate_sync(counting, "m", rollouts_per_example=4, max_concurrent=1)["outputs"]
    assert [output["reward"] for output in outputs] == [None, 0.0, None, 1.0]
    assert [output["advantage"] for output in outputs] == [None, -0.5, None, 0.5]
    assert [state["mine"] for state in rubric.groups[0]] == ["kept", "kept"]


def test_a_group_that_cannot_be_scored_has_an_error_and_no_reward():
    class Broken(Ranking):
        async def score_group(self, states):
            raise ZeroDivisionError("by zero")

    results = Guessing(max_turns=1, rubric=Broken()).evaluate_sync(counting, "m", rollouts_per_example=2)
    assert {output["error"]["kind"] for output in results["outputs"]} == {"hook"}
    assert "scoring failed: ZeroDivisionError: by zero" in results["outputs"][0]["error"]["message"]
    assert results["metadata"]["avg_reward"] is None


def test_without_functions_of_a_group_each_is_scored_alone_and_compared_all_the_same():
    env = Guessing(max_turns=1, rubric=vf.Rubric([lambda completion: float(completion[-1]["content"])]))
    said = iter("0123456789")
    outputs = env.evaluate_sync(lambda messages: next(said), "m", rollouts_per_example=2, max_concurrent=1)["outputs"]
    assert [output["advantage"] for output in outputs] == [-0.5, 0.5] * 3
    assert [(step["reward"], step["advantage"]) for step in outputs[1]["trajectory"]] == [(1.0, 0.5)]


def test_run_group_scores_what_it_is_given_as_one_group():
    rubric = Ranking()
    env = Guessing(max_turns=1, rubric=rubric)
    rows = [{**row, "example_id": number} for number, row in enumerate(ROWS)]
    outputs = asyncio.run(env.run_group(rows, counting, "m", {"temperature": 1.0}, state_columns=["model"]))
    assert [output["advantage"] for output in outputs] == [-1.0, 0.0, 1.0]
    assert [(output["example_id"], output["model"]) for output in outputs] == [(0, "m"), (1, "m"), (2, "m")]
    assert len(rubric.groups) == 1


def test_run_rollout_gives_one_output_and_takes_what_older_trainers_say():
    async def scenario():
        env = Guessing(max_turns=2)
        limit = asyncio.Semaphore(1)
        one = await env.run_rollout(ROWS[0], counting, "m", {}, max_retries=0)
        other = await env.run_rollout(ROWS[0], counting, "m", gen_sampling_args={"n": 1}, gen_sem=limit, score=True)
        return one, other

    one, other = asyncio.run(scenario())
    assert (one["reward"], other["reward"], one["error"]) == (1.0, 1.0, None)
    with pytest.raises(vf.UnknownArgumentError, match="max_retry: did you mean max_retries"):
        asyncio.run(Guessing().run_rollout(ROWS[0], counting, "m", {}, max_retry=1))


def test_groups_that_are_kept_are_scored_when_they_are_written_and_with_those_that_were(tmp_path):
    rubric = Ranking()
    env = Guessing(max_turns=1, rubric=rubric)
    options = {"rollouts_per_example": 2, "num_examples": 1, "save_to": tmp_path}
    first = env.evaluate_sync(counting, "m", **options)
    lines = (tmp_path / "rollouts.jsonl").read_text().splitlines()
    assert ['"reward": 0.0' in line for line in lines] == [True, False]
    (tmp_path / "rollouts.jsonl").write_text(lines[0] + "\n")
    again = env.evaluate_sync(counting, "m", **options, resume=True)
    assert [output["reward"] for output in again["outputs"]] == [0.0, 1.0]
    assert again["outputs"][0]["trajectory_id"] == first["outputs"][0]["trajectory_id"]
    assert [state["completion"][0]["content"] for state in rubric.groups[1]] == ["0", "0"]


def test_a_comparison_leaves_what_the_rubric_said():
    outputs: list[Output] = [
        {"reward": 1.0, "advantage": 7.0, "trajectory": []},
        {"reward": 3.0, "advantage": None, "trajectory": []},
        {"reward": None, "advantage": None, "trajectory": []},
    ]
    compare(outputs)
    assert [output["advantage"] for output in outputs] == [7.0, 1.0, None]


def test_rollouts_that_are_trials_are_scored_in_groups_too(tmp_path):
    env = harbor_env(make_tasks(tmp_path / "tasks"))
    env.rubric = Ranking()
    results = evaluate(env, rollouts_per_example=3)
    assert [output["reward"] for output in results["outputs"]] == [0.0, 1.0, 2.0]
    assert [output["outcome"] for output in results["outputs"]] == ["pass"] * 3
    assert results["metadata"]["avg_reward"] == 1.0


def test_groups_of_a_job_that_is_resumed_are_scored_anew(tmp_path):
    env = harbor_env(make_tasks(tmp_path / "tasks"))
    env.rubric = rubric = Ranking()
    options = {"rollouts_per_example": 2, "save_to": tmp_path / "job", "state_columns": []}
    first = evaluate(env, **options)
    again = evaluate(env, **options, resume=True)
    ids = [[output["trajectory_id"] for output in results["outputs"]] for results in (first, again)]
    assert ids[0] == ids[1]
    assert [output["reward"] for output in again["outputs"]] == [0.0, 1.0]
    assert [[state["task"] for state in group] for group in rubric.groups] == [["task_1", "task_1"]] * 2


def test_trials_are_run_one_by_one_and_as_a_stream(tmp_path):
    env = harbor_env(make_tasks(tmp_path / "tasks", "a", "b"))

    async def scenario():
        rows = env.get_dataset()
        one = await env.run_rollout(rows[0], echo, "m", {})
        group = await env.run_group([rows[0]] * 2, echo, "m", {})
        streamed = [output async for output in env.stream(-1, echo, "m", rollouts_per_example=2)]
        return one, group, streamed

    one, group, streamed = asyncio.run(scenario())
    assert (one["reward"], one["task"]) == (1.0, "a")
    assert [output["advantage"] for output in group] == [0.0, 0.0]
    assert sorted(output["task"] for output in streamed) == ["a", "a", "b", "b"]


def kept_env(tmp_path, rubric, agent=idle, kind=vf.HarborEnv):
    """An environment whose sandboxes stay until their group is scored, and where they are."""
    backend = world(agent)
    env = harbor_env(make_tasks(tmp_path), kind, backend=backend, rubric=rubric, keep_sandbox_for_scoring=True)
    return env, backend


def is_empty(backend):
    return backend.sandboxes != [] and all(sandbox.destroyed for sandbox in backend.sandboxes)


async def end(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def never(*_: object) -> None:
    await asyncio.Event().wait()


def test_sandboxes_kept_for_a_group_go_when_it_is_never_whole(tmp_path):
    async def scenario():
        third = asyncio.Event()

        async def agent(spec, sandbox):
            if len(backend.sandboxes) > 2:
                third.set()
                await never()

        env, backend = kept_env(tmp_path, Ranking(), agent)
        task = asyncio.create_task(env.evaluate(echo, "m", rollouts_per_example=3, max_concurrent=1))
        await third.wait()
        kept = [sandbox.destroyed for sandbox in backend.sandboxes]
        await end(task)
        return kept, is_empty(backend)

    assert asyncio.run(scenario()) == ([False, False, False], True)


@pytest.mark.parametrize("in_groups", [True, False])
def test_sandboxes_kept_for_scoring_go_when_it_is_broken_off(tmp_path, in_groups):
    async def scenario():
        scoring = asyncio.Event()

        async def score(states):
            scoring.set()
            await never()

        async def score_one(state):
            await score([state])

        env, backend = kept_env(tmp_path, vf.Rubric([score if in_groups else score_one]))
        task = asyncio.create_task(env.evaluate(echo, "m", rollouts_per_example=2))
        await scoring.wait()
        await end(task)
        return is_empty(backend)

    assert asyncio.run(scenario())


def test_a_sandbox_is_not_kept_for_a_rollout_that_is_broken_off_while_it_is_judged(tmp_path):
    async def scenario():
        judging = asyncio.Event()

        class Slow(vf.HarborEnv):
            async def compute_reward(self, state):
                judging.set()
                await never()

        env, backend = kept_env(tmp_path, Ranking(), kind=Slow)
        task = asyncio.create_task(env.evaluate(echo, "m"))
        await judging.wait()
        await end(task)
        return is_empty(backend)

    assert asyncio.run(scenario())


def test_leaving_a_stream_gives_back_what_its_groups_hold(tmp_path):
    async def scenario():
        begun, fourth = itertools.count(1), asyncio.Event()

        async def agent(spec, sandbox):
            if next(begun) == 4:
                fourth.set()
                await never()

        env, backend = kept_env(tmp_path, Ranking(), agent)
        rows = env.get_dataset().repeat(3)
        async with aclosing(env.stream_groups(rows, echo, "m", rollouts_per_example=2, max_concurrent=4)) as groups:
            async for _ in groups:
                await fourth.wait()
                break
        return is_empty(backend)

    assert asyncio.run(scenario())
