"""CliAgentEnv: each request of an agent is a turn of its rollout, whichever way it asks and however either ends."""

import asyncio
import inspect
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

import seatrial as vf
from seatrial.env import agent_run
from seatrial.env.agent_state import RolloutEnded
from seatrial.env.cli_agent import CliAgentEnv
from seatrial.errors import ProviderError, SandboxError, UsageError
from seatrial.testing.fake import answer
from tests.env.worlds import COMMAND, ask, cli_env, echo, evaluate, only, text_of, world


def test_each_request_is_a_turn_and_the_answer_goes_back_to_the_agent():
    async def agent(spec, sandbox):
        first = text_of(await ask(spec, "one"))
        said = {"role": "assistant", "content": first}
        return answer(text_of(await ask(spec, "one", said, "two")))

    output = only(evaluate(cli_env(agent)))
    assert (output["error"], output["stop_condition"]) == (None, "agent_completed")
    assert output["agent_stdout"] == "you said two"
    assert output["prompt"] == [{"role": "user", "content": "one"}]
    assert [message["content"] for message in output["completion"]] == ["you said one", "two", "you said two"]
    assert [len(turn["prompt"]) for turn in output["trajectory"]] == [1, 3]
    assert output["usage"]["calls"] == 2


def test_how_the_agent_ended_is_on_the_state():
    async def agent(spec, sandbox):
        return answer("out", stderr="err", exit_code=7)

    output = only(evaluate(cli_env(agent)))
    ended = [output[f"agent_{name}"] for name in ("exit_code", "stdout", "stderr", "completed", "timed_out")]
    assert ended == [7, "out", "err", True, False]
    assert (output["error"], output["trajectory"]) == (None, [])


def test_a_rollout_whose_time_runs_out_while_its_model_is_silent_has_an_error():
    class Silent(CliAgentEnv):
        async def get_model_response(self, state, prompt, *args, **kwargs):
            await asyncio.Event().wait()

    async def agent(spec, sandbox):
        return answer(text_of(await ask(spec, "one")))

    output = only(evaluate(cli_env(agent, Silent, timeout_seconds=0.5)))
    assert "when the agent's time was over" in str(output["error"])


def test_requests_made_side_by_side_are_turns_one_after_the_other():
    async def agent(spec, sandbox):
        said = await asyncio.gather(*(ask(spec, f"{number}") for number in range(8)))
        return answer(" ".join(sorted(map(text_of, said))))

    output = only(evaluate(cli_env(agent)))
    assert output["agent_stdout"] == " ".join(f"you said {number}" for number in range(8))
    assert len(output["trajectory"]) == 8


def test_a_request_that_its_agent_gives_up_is_no_turn():
    entered = asyncio.Event()

    class Waiting(CliAgentEnv):
        async def get_model_response(self, state, prompt, *args, **kwargs):
            entered.set()
            return await super().get_model_response(state, prompt, *args, **kwargs)

    async def agent(spec, sandbox):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(spec, "kept"))
            await entered.wait()
            given_up = group.create_task(ask(spec, "given up"))
            await asyncio.sleep(0)
            given_up.cancel()
            await first
        text_of(await ask(spec, "after"))

    turns = [turn["prompt"][-1]["content"] for turn in only(evaluate(cli_env(agent, Waiting)))["trajectory"]]
    assert (turns[0], turns[-1]) == ("kept", "after")


def test_the_model_is_asked_what_the_agent_asks_and_what_the_run_sets():
    asked: list[dict[str, Any]] = []

    class Upstream:
        """A client that keeps what it is asked."""

    async def create(**request):
        asked.append(request)
        return {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}

    client = Upstream()
    client.chat = Upstream()  # type: ignore[attr-defined]
    client.chat.completions = Upstream()  # type: ignore[attr-defined]
    client.chat.completions.create = create  # type: ignore[attr-defined]
    tool = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}

    async def agent(spec, sandbox):
        await ask(spec, "x", tools=[tool], temperature=1.0, max_tokens=9, stream=False)

    output = only(evaluate(cli_env(agent), client, sampling_args={"temperature": 0.25}))
    assert output["error"] is None
    (request,) = asked
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("gpt-4", 0.25, 9)
    assert request["tools"] == [tool]


def test_the_agent_gets_the_whole_answer_with_what_the_loop_has_no_use_for():
    async def telling(messages):
        choice = {"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop", "index": 0}
        return {"choices": [{**choice, "logprobs": {"content": []}}], "system_fingerprint": "fp"}

    answers: list[Any] = []

    async def agent(spec, sandbox):
        answers.append((await ask(spec, "x"))[1])

    only(evaluate(cli_env(agent), telling))
    assert (answers[0]["system_fingerprint"], answers[0]["choices"][0]["logprobs"]) == ("fp", {"content": []})


def test_an_override_of_get_model_response_answers_the_agent():
    class Wise(CliAgentEnv):
        async def get_model_response(self, state, prompt, *args, **kwargs):
            return "wise words" if len(state["trajectory"]) else await super().get_model_response(state, prompt)

    async def agent(spec, sandbox):
        return answer(text_of(await ask(spec, "a")) + ", " + text_of(await ask(spec, "b")))

    assert only(evaluate(cli_env(agent, Wise)))["agent_stdout"] == "you said a, wise words"


def test_an_override_of_env_response_has_a_word_before_the_model_from_the_second_turn_on():
    class Hinting(CliAgentEnv):
        async def env_response(self, messages, state, **_):
            return f"hint after {messages[-1]['content']}"

    async def agent(spec, sandbox):
        return answer(text_of(await ask(spec, "a")) + ", " + text_of(await ask(spec, "b")))

    output = only(evaluate(cli_env(agent, Hinting)))
    assert output["agent_stdout"] == "you said a, you said hint after b"
    assert output["trajectory"][1]["prompt"][-1] == {"role": "user", "content": "hint after b"}


def test_an_environment_that_has_said_its_last_word_ends_the_rollout_and_tells_the_agent():
    class Final(CliAgentEnv):
        async def env_response(self, messages, state, **_):
            state["final_env_response"] = "enough"
            return "enough"

    async def agent(spec, sandbox):
        await ask(spec, "a")
        status, said = await ask(spec, "b")
        return answer(f"{status} {said['error']['message']}")

    output = only(evaluate(cli_env(agent, Final)))
    assert output["stop_condition"] == "has_final_env_response"
    assert output["agent_stdout"].startswith("429 the rollout has ended (has_final_env_response)")


def test_an_override_of_build_env_vars_reaches_the_agent_and_the_commands_of_hooks():
    class Set(CliAgentEnv):
        async def build_env_vars(self, state):
            return {**await super().build_env_vars(state), "MINE": state["interception_base_url"]}

        async def post_sandbox_setup(self, state):
            await self.sandbox_client.execute_command(state["sandbox_id"], "set up")

    seen = []

    async def agent(spec, sandbox):
        seen.extend([spec.env, sandbox.executed[0].env])

    only(evaluate(cli_env(agent, Set, environment_vars={"GIVEN": "1", "OPENAI_BASE_URL": "elsewhere"})))
    for env in seen:
        assert env["MINE"] == env["OPENAI_BASE_URL"] == env["OPENAI_API_BASE"]
        assert env["MINE"].startswith("http://127.0.0.1:")
        assert (env["GIVEN"], env["OPENAI_MODEL"]) == ("1", "gpt-4")
        assert env["ANTHROPIC_BASE_URL"] + "/v1" == env["OPENAI_BASE_URL"]
    assert len(seen) == 2


def test_an_agent_may_finish_with_its_last_answer_and_is_told_when_it_asks_for_more():
    said: list[Any] = []

    async def agent(spec, sandbox):
        said.append(text_of(await ask(spec, "one")))
        for _ in range(100):  # the loop has ended by now, and the agent still works
            await asyncio.sleep(0)
        sandbox.files["/app/answer.txt"] = b"right"
        said.append(await ask(spec, "two"))
        return answer("finished")

    output = only(evaluate(cli_env(agent, max_turns=1)))
    assert (output["stop_condition"], output["agent_stdout"], output["agent_exit_code"]) == (
        "max_turns_reached", "finished", 0,
    )  # fmt: skip
    assert said[0] == "you said one"
    assert said[1][0] == 429


def test_requests_that_wait_when_the_rollout_ends_are_told():
    async def agent(spec, sandbox):
        said = await asyncio.gather(*(ask(spec, f"{number}") for number in range(4)))
        return answer(" ".join(sorted(str(status) for status, _ in said)))

    output = only(evaluate(cli_env(agent, max_turns=1)))
    assert output["agent_stdout"] == "200 429 429 429"


def test_an_agent_that_goes_on_after_it_was_told_is_ended(monkeypatch):
    monkeypatch.setattr(agent_run, "_GRACE_SEC", 0.01)
    ended = []

    async def agent(spec, sandbox):
        await ask(spec, "one")
        await ask(spec, "two")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    output = only(evaluate(cli_env(agent, max_turns=1)))
    assert (ended, output["agent_exit_code"], output["agent_timed_out"], output["error"]) == ([True], None, False, None)


@pytest.mark.parametrize("asks", [0, 1])
def test_at_the_end_of_its_time_an_agent_is_ended(asks):
    async def agent(spec, sandbox):
        for _ in range(asks):
            await ask(spec, "one")
        await asyncio.Event().wait()

    output = only(evaluate(cli_env(agent, timeout_seconds=0.3, max_turns=1)))
    assert (output["agent_timed_out"], output["agent_exit_code"], output["error"]) == (True, None, None)


def test_a_model_that_never_answers_ends_with_the_time_of_the_rollout():
    async def never(messages):
        await asyncio.Event().wait()

    async def agent(spec, sandbox):
        await ask(spec, "one")

    output = only(evaluate(cli_env(agent, timeout_seconds=0.3), never))
    assert (output["stop_condition"], output["agent_timed_out"]) == ("timeout_reached", True)


def test_a_provider_that_fails_is_an_error_of_the_rollout_and_ends_its_agent():
    async def broken(messages):
        raise ProviderError("out of credit", 402)

    async def agent(spec, sandbox):
        await ask(spec, "one")
        await asyncio.Event().wait()

    output = only(evaluate(cli_env(agent), broken))
    assert (output["reward"], output["error"]["kind"]) == (None, "model")
    assert "out of credit" in output["error"]["message"]


def test_a_prompt_that_does_not_fit_is_told_as_providers_do():
    async def small(messages):
        raise vf.OverlongPromptError("too long")

    async def agent(spec, sandbox):
        status, said = await ask(spec, "one")
        return answer(f"{status} {said['error']['message']}")

    output = only(evaluate(cli_env(agent), small))
    assert (output["error"], output["stop_condition"]) == (None, "prompt_too_long")
    assert output["agent_stdout"].startswith("400 ")
    assert "context_length_exceeded" in output["agent_stdout"]


def test_a_sandbox_that_fails_while_the_agent_runs_is_an_error_of_the_rollout():
    async def agent(spec, sandbox):
        raise SandboxError("the disk is gone")

    output = only(evaluate(cli_env(agent)))
    told = {"error": "SandboxError", "message": "the disk is gone", "kind": "infrastructure", "retryable": True}
    assert output["error"].items() >= told.items()


def test_messages_that_are_none_are_the_agents_mistake_and_no_turn():
    async def agent(spec, sandbox):
        status, _ = await ask(spec, {"content": "no role"})
        return answer(str(status))

    output = only(evaluate(cli_env(agent)))
    assert (output["agent_stdout"], output["error"], output["trajectory"]) == ("400", None, [])


def test_a_developer_message_is_passed_on():
    async def agent(spec, sandbox):
        return answer(text_of(await ask(spec, {"role": "developer", "content": "be brief"})))

    output = only(evaluate(cli_env(agent)))
    assert output["agent_stdout"] == "you said be brief"
    assert output["prompt"] == [{"role": "developer", "content": "be brief"}]


def test_sandboxes_are_gone_and_files_too_whatever_happens(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Breaking(CliAgentEnv):
        async def post_sandbox_setup(self, state):
            raise RuntimeError("no wheel")

    backend = world()
    output = only(evaluate(cli_env(kind=Breaking, backend=backend)))
    assert output["error"]["message"] == "post_sandbox_setup failed: RuntimeError: no wheel"
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True]
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_rollout_leaves_nothing_behind():
    started, ended = asyncio.Event(), []

    async def agent(spec, sandbox):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    backend = world(agent)

    async def run():
        env = cli_env(backend=backend)
        task = asyncio.create_task(env.evaluate(echo, "m"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert (ended, [sandbox.destroyed for sandbox in backend.sandboxes]) == ([True], [True])


def test_resources_and_their_kin_are_checked_before_anything_starts():
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"gpu_count": 1}, "no sandbox here has GPUs"),
        ({"memory_gb": 0}, "memory_gb=0"),
        ({"memroy_gb": 2}, "did you mean memory_gb"),
        ({"backend": "dockr"}, "no sandbox backend"),
    ]
    for options, message in wrong:
        with pytest.raises(UsageError, match=message):
            cli_env(**options)


def test_resources_are_limits_of_the_sandbox():
    backend = world()
    only(evaluate(cli_env(backend=backend, cpu_cores=2, memory_gb=0.5, disk_size_gb=1)))
    limits = backend.sandboxes[0].spec.limits
    assert (limits.cpus, limits.memory_mb, limits.storage_mb) == (2, 512, 1024)


def test_a_start_command_runs_beside_the_agent():
    commands: list[str] = []

    async def agent(spec, sandbox):
        commands.extend(each.argv[2] for each in sandbox.executed)

    only(evaluate(cli_env(agent, start_command="redis-server")))
    assert commands == ["redis-server", COMMAND]


def test_the_port_of_the_model_can_be_chosen():
    backend = world()
    only(evaluate(cli_env(backend=backend, interception_port=8765)))
    assert list(backend.sandboxes[0].ports) == [8765]


def test_the_signature_is_the_one_that_authors_know():
    names = list(inspect.signature(CliAgentEnv).parameters)
    assert names[:14] == [
        *("run_command", "interception_port", "interception_url", "max_turns", "timeout_seconds", "poll_interval"),
        *("docker_image", "start_command", "cpu_cores", "memory_gb", "disk_size_gb", "gpu_count", "timeout_minutes"),
        "environment_vars",
    ]


def openai_client(spec):
    return openai.AsyncOpenAI(base_url=spec.env["OPENAI_BASE_URL"], api_key=spec.env["OPENAI_API_KEY"])


def anthropic_client(spec):
    return anthropic.AsyncAnthropic(base_url=spec.env["ANTHROPIC_BASE_URL"], api_key=spec.env["ANTHROPIC_API_KEY"])


async def chat(spec):
    async with openai_client(spec) as client:
        reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        return reply.choices[0].message.content


async def chat_stream(spec):
    async with openai_client(spec) as client:
        asked = {"role": "user", "content": "hello"}
        stream = await client.chat.completions.create(model="m", messages=[asked], stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def responses(spec):
    async with openai_client(spec) as client:
        return (await client.responses.create(model="m", input="hello")).output_text


async def responses_stream(spec):
    async with openai_client(spec) as client:
        stream = await client.responses.create(model="m", input="hello", stream=True)
        return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def anthropic_messages(spec):
    async with anthropic_client(spec) as client:
        asked = {"role": "user", "content": "hello"}
        reply = await client.messages.create(model="m", max_tokens=64, messages=[asked])
        return reply.content[0].text


async def anthropic_stream(spec):
    async with anthropic_client(spec) as client:
        asked = {"role": "user", "content": "hello"}
        async with client.messages.stream(model="m", max_tokens=64, messages=[asked]) as stream:
            return "".join([text async for text in stream.text_stream])


def google(method):
    """Google's dialect without its SDK: the texts of all that comes."""

    async def way(spec):
        url = f"{spec.env['GOOGLE_GEMINI_BASE_URL']}/v1beta/models/m:{method}"
        asked = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
        headers = {"x-goog-api-key": spec.env["GEMINI_API_KEY"]}
        async with aiohttp.ClientSession(headers=headers) as client, client.post(url, json=asked) as response:
            found = await response.json()
        parts = [part for each in found for part in each["candidates"][0]["content"]["parts"]]
        return "".join(part["text"] for part in parts)

    return way


WAYS = [chat, chat_stream, responses, responses_stream, anthropic_messages, anthropic_stream]


@pytest.mark.parametrize("way", [*WAYS, google("streamGenerateContent")])
def test_every_dialect_is_a_turn(way):
    async def agent(spec, sandbox):
        return answer(await way(spec))

    output = only(evaluate(cli_env(agent), echo_text))
    assert (output["error"], output["agent_stdout"]) == (None, "you said hello")
    (turn,) = output["trajectory"]
    assert turn["prompt"][-1]["role"] == "user"
    assert turn["completion"] == [{"role": "assistant", "content": "you said hello"}]


def echo_text(messages: vf.Messages) -> str:
    """A model that says what it was asked, in whichever form that comes."""
    content = messages[-1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return echo([{"role": "user", "content": text}])


@pytest.mark.parametrize("way", WAYS)
def test_every_sdk_is_told_once_that_there_are_no_more_answers_and_does_not_try_again(way, monkeypatch):
    told: list[RolloutEnded] = []
    refusal = agent_run._refusal

    def counted(ended):
        told.append(ended)
        return refusal(ended)

    monkeypatch.setattr(agent_run, "_refusal", counted)

    async def agent(spec, sandbox):
        await way(spec)
        try:
            await way(spec)
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            return answer(f"{error.status_code}")

    output = only(evaluate(cli_env(agent, max_turns=1), echo_text))
    assert (output["agent_stdout"], output["stop_condition"], len(told)) == ("429", "max_turns_reached", 1)


def test_a_tool_call_comes_to_the_agent_whole():
    def calling(_):
        return {"tool_calls": [{"name": "run", "arguments": {"command": "ls"}}]}

    async def agent(spec, sandbox):
        tool = {"name": "run", "description": "", "input_schema": {"type": "object"}}
        async with anthropic_client(spec) as client:
            asked = {"role": "user", "content": "hello"}
            reply = await client.messages.create(model="m", max_tokens=64, messages=[asked], tools=[tool])
        return answer(f"{reply.content[-1].name} {reply.content[-1].input} {reply.stop_reason}")

    assert only(evaluate(cli_env(agent), calling))["agent_stdout"] == "run {'command': 'ls'} tool_use"
