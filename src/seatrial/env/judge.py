"""JudgeRubric: a rubric with a model in it that functions may ask whether an answer is right."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

from seatrial.env.client import Client, ClientConfig, open_client
from seatrial.env.hooks import teardown
from seatrial.env.messages import as_response, chat_namespace
from seatrial.env.parsers import Parser, message_text
from seatrial.env.rollout import State
from seatrial.env.rubric import Rubric
from seatrial.errors import EmptyModelResponseError, UsageError

# JudgeClient: a model that judges, opened when it is first asked, once for each event loop.


class JudgeClient:
    """Whatever `evaluate` takes for a client. It has `chat.completions.create`, as the clients of SDKs do."""

    def __init__(self, given: object) -> None:
        self.given = given
        self._opened: _Opened | None = None

    @property
    def chat(self) -> SimpleNamespace:
        return chat_namespace(self.complete)

    async def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a chat completion request, as a table. Raises ModelError or UsageError."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop:
            self._opened = _Opened(loop)
        client = await self._opened.client(self.given)
        return await client.complete(request)

    async def close(self) -> None:
        """Give up the connection; the next question opens another one."""
        opened, self._opened = self._opened, None
        if opened is not None and opened.loop is asyncio.get_running_loop():
            await opened.stack.aclose()

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self.given, "_opened": None}


class _Opened:
    """A client that belongs to one event loop, which closes it when it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._client: Client | None = None

    async def client(self, given: object) -> Client:
        async with self._lock:
            if self._client is None:
                self._client = await self.stack.enter_async_context(open_client(given))
        return self._client


DEFAULT_JUDGE_MODEL = "gpt-4.1-nano"

DEFAULT_JUDGE_PROMPT = """\
You compare an answer with the one that is known to be right. How it is worded does not matter, only what it says.

The question was:
<question>
{question}
</question>

The right answer is:
<right_answer>
{answer}
</right_answer>

This was answered:
<response>
{response}
</response>

Does the response say the same as the right answer? Say "yes" or "no" and nothing else."""


class JudgeRubric(Rubric):
    """Functions of this rubric may ask for `judge`, a coroutine of prompt, completion, answer and state.

    `judge_client` is whatever `evaluate` takes for a client: a ClientConfig, a client of an SDK, a function, the name
    of an upstream. Without one it is OpenAI, or the address in OPENAI_BASE_URL, with the key in OPENAI_API_KEY, looked
    for at the first question.
    `judge_prompt` has places for {question}, {answer} and {response}. Functions may also ask for `judge_client`, with
    `chat.completions.create`, `judge_model`, `judge_prompt` and `judge_sampling_args`. `parallelize_scoring` changes
    nothing: rollouts are scored side by side.
    """

    def __init__(
        self,
        parser: Parser | None = None,
        parallelize_scoring: bool = False,  # noqa: FBT001, FBT002 - where authors of environments know it
        judge_client: Any = None,
        judge_model: str = DEFAULT_JUDGE_MODEL,
        judge_sampling_args: Mapping[str, Any] | None = None,
        judge_prompt: str = DEFAULT_JUDGE_PROMPT,
    ) -> None:
        super().__init__(parser=parser)
        self._judge = JudgeClient(_usual_judge() if judge_client is None else judge_client)
        self.judge_client = judge_client if hasattr(judge_client, "chat") else self._judge
        self.judge_model = judge_model
        self.judge_prompt = judge_prompt
        self.judge_sampling_args = dict(judge_sampling_args or {})
        self.class_objects.update(
            judge=self.judge,
            judge_client=self.judge_client,
            judge_model=self.judge_model,
            judge_prompt=self.judge_prompt,
            judge_sampling_args=self.judge_sampling_args,
        )

    async def judge(self, prompt: Any, completion: Any, answer: Any, state: State | None = None) -> str:
        """What the judge says of an answer; asked the same of the same rollout again, what it said before.

        Raises ModelError when it cannot be reached or says nothing: that is no verdict, so there is no reward.
        """
        question = self._question(prompt, completion, answer)
        said: dict[str, str] = {} if state is None else _said_before(state)
        if question not in said:
            said[question] = await self._ask(question)
        return said[question]

    def _question(self, prompt: Any, completion: Any, answer: Any) -> str:
        asked = prompt if isinstance(prompt, str) else message_text(prompt[-1]) if prompt else ""
        response = self.parser.parse_answer(completion)
        try:
            return self.judge_prompt.format(question=asked, answer=answer, response=response)
        except (KeyError, IndexError, ValueError) as error:
            raise UsageError(
                f"the judge_prompt cannot be filled in: {type(error).__name__}: {error}; its places are {{question}}, "
                "{answer} and {response}, and any other brace is written twice"
            ) from error

    async def _ask(self, question: str) -> str:
        messages = [{"role": "user", "content": question}]
        request = {"model": self.judge_model, "messages": messages, **_sampling(self.judge_sampling_args)}
        response = as_response(await self._judge.complete(request))
        content = message_text(response.message)
        if not content:
            raise EmptyModelResponseError(f"the judge {self.judge_model} said nothing: {str(response.message)[:200]}")
        return content

    @teardown
    async def close_judge(self) -> None:
        await self._judge.close()


def _usual_judge() -> ClientConfig:
    """What a client of OpenAI's SDK would ask."""
    address = os.environ.get("OPENAI_BASE_URL")
    return ClientConfig(base_url=address, api_key_var="OPENAI_API_KEY") if address else ClientConfig()


def _said_before(state: State) -> dict[str, str]:
    said = state.get("judge_response")
    if not isinstance(said, dict):
        said = state["judge_response"] = {}
    return said


def _sampling(given: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling arguments that say something, with the limit of tokens by the name that chat completions have."""
    values = {name: value for name, value in given.items() if value is not None}
    if "max_tokens" in values:
        values["max_completion_tokens"] = values.pop("max_tokens")
    return {**values.pop("extra_body", {}), **values}
