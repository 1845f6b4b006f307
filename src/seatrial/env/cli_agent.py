"""CliAgentEnv: a command in a sandbox is the agent, and each of its requests to a model is a turn of the rollout.

The agent itself is in `agent_state` and `agent_run`, its sandbox in `sandboxes`. The first rollout imports the gateway.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seatrial.agents.api import AgentLaunch
from seatrial.agents.environ import model_variables
from seatrial.concurrency import unless
from seatrial.env.agent_state import AgentState, PlainWorkplace, Workplace, agent_of
from seatrial.env.arguments import passes_on
from seatrial.env.client import chat_request
from seatrial.env.hooks import blaming, call_hook, cleanup, maybe_await, stop
from seatrial.env.messages import Messages, Response, as_messages, as_response
from seatrial.env.monitors import OF_AGENTS
from seatrial.env.rollout import State, rollout_of, tools_of
from seatrial.env.sandbox_client import SandboxRequest, without_client
from seatrial.env.sandbox_mixin import SandboxMixin
from seatrial.env.sandboxes import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.turns import MultiTurnEnv
from seatrial.errors import HookError, UsageError
from seatrial.model.arguments import instance_of, one_of, whole_number
from seatrial.sandbox.runs import Scratch

if TYPE_CHECKING:  # an HTTP server and client, and all dialects of models: the first rollout imports them
    from seatrial.env.agent_run import InterceptedTurn
    from seatrial.gateway.access import ModelAccess
    from seatrial.gateway.session import Keys

USUAL_SECONDS = 3600.0
_POLL_SEC = 5.0
_OUR_OWN = frozenset({"backend", "image", "image_map", "image_fallback", "network", "enforcement", "environment_vars"})
_TIMEOUTS = {"OPENAI_TIMEOUT": "600", "OPENAI_REQUEST_TIMEOUT": "600", "HTTPX_TIMEOUT": "600"}


class CliAgentEnv(SandboxMixin, MultiTurnEnv):
    """Runs `run_command` in a sandbox. Each request that it makes to a model is one turn: what comes in is the prompt,
    and what `get_model_response` returns goes back to the agent.

    The rollout ends with the agent. One that ends first, by `max_turns` or another condition, lets the agent finish
    with what it has got; when it asks again, it is told so by an error as providers send it, and ended soon after. At
    the end of `timeout_seconds` it is ended at once.

    `environment_vars` are the agent's besides those of `build_env_vars`. `interception_port` is the port at which
    the model is found inside the sandbox, a free one if it is None. `translate` says what becomes of fields of an
    agent's request that chat completions have no place for: `lenient` leaves them out, `strict` refuses the
    request. `prices` is a file of prices that go before those that come with Seatrial. What may be said about the
    sandbox is in SandboxSettings: `backend`, resources, `image`, `image_map`, `image_fallback` and so on.

    An override of `check_agent_completed` is asked every `poll_interval` seconds while the agent says nothing; nothing
    else is polled. `interception_url` is taken and has no effect.
    """

    keep_sandbox_for_scoring: bool

    @passes_on(SandboxSettings)
    def __init__(
        self,
        run_command: str,
        interception_port: int | None = None,
        interception_url: str | None = None,
        max_turns: int = -1,
        timeout_seconds: float | None = USUAL_SECONDS,
        poll_interval: float | None = None,
        docker_image: str = DEFAULT_IMAGE,
        *,
        translate: Literal["lenient", "strict"] = "lenient",
        **kwargs: Any,
    ) -> None:
        instance_of("run_command", run_command, str)
        one_of("translate", translate, ("lenient", "strict"))
        if interception_port is not None:
            whole_number("interception_port", interception_port, 0)
        prices: str | Path | None = kwargs.pop("prices", None)
        settings = SandboxSettings.take_from(kwargs)
        super().__init__(max_turns=max_turns, timeout_seconds=settings.seconds_within(timeout_seconds), **kwargs)
        for each in fields(settings):  # for hooks, which know them as attributes
            if each.name not in _OUR_OWN:
                setattr(self, each.name, getattr(settings, each.name))
        self.run_command = run_command
        self.interception_port = interception_port
        self.interception_url = interception_url
        self.poll_interval = poll_interval
        self.docker_image = docker_image
        self.translate = translate
        self.prices = None if prices is None else str(prices)
        if self.prices is not None:
            from seatrial.gateway.prices import load_prices  # noqa: PLC0415 - slow to import

            load_prices(Path(self.prices))  # refuses a file that cannot be read
        self.environment_vars = dict(settings.environment_vars or {})
        self._use_sandboxes(settings)
        self.add_monitors(*OF_AGENTS)

    async def get_docker_image(self, state: State) -> str:
        return self.docker_image

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The variables of the agent, and of every command that hooks run in its sandbox.

        Those by which it finds its model are there once the way to the model is open. A state that somebody made names
        it by `interception_base_url`, or has none.
        """
        agent, model = rollout_of(state).agent, state.get("model")
        way = agent.model_variables if agent else {}
        if not way and (url := state.get("interception_base_url")):
            way = {"OPENAI_BASE_URL": url}
        return {**_TIMEOUTS, **self.environment_vars, **way, **(model_variables(model) if model else {})}

    @without_client
    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made and before the agent starts: upload files, install what it needs."""

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What is added to a request of the agent before the model sees it, from the second on: nothing."""
        return []

    async def check_agent_completed(self, state: State) -> bool:
        """Whether the agent has ended. An override may say so of one that still runs: then its rollout ends."""
        return bool(state.get("agent_completed"))

    async def wait_for_completion(self, state: State) -> None:
        """Wait until the agent has ended. Nobody needs to: the rollout ends with it."""
        agent = agent_of(state)
        agent.adopt(state, self.sandbox_client)
        if agent.run is not None:
            await agent.run.over.wait()

    async def poll_job_completion(self, state: State, sandbox_id: str, background_job: Any) -> None:
        """Wait until a background job has ended, and note on the state how; nothing is polled."""
        ended = await self.sandbox_client.wait_for_background_job(sandbox_id, background_job)
        state.update(agent_exit_code=ended.exit_code, agent_stdout=ended.stdout, agent_stderr=ended.stderr)

    async def normalize_intercepted_messages(self, intercepted_messages: Any) -> Messages:
        """The messages of a request as the model is to get them: as they came, in the form of chat completions."""
        return as_messages(intercepted_messages)

    def normalize_intercepted_tools(self, intercept_tools: Any) -> list[Any] | None:
        """The tools of a request as the model is to get them: as they came, in the form of chat completions."""
        if not isinstance(intercept_tools, list):
            raise TypeError(f"the tools of a request are a list, not {type(intercept_tools).__name__}")
        return intercept_tools

    async def normalize_response(self, response: Response) -> Response | Any:
        """An answer as the trajectory is to have it; the agent gets it as the model gave it."""
        return response

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, furnish it, and start the agent. Raises UsageError for a state that is not whole."""
        if lacking := [name for name in ("client", "error", "info", "model") if name not in state]:
            raise UsageError(
                f"the state has no {', '.join(lacking)}: make it by `await env.init_state(row, client, model)`"
            )
        await super().setup_state(state)
        state.update(rollout_id=f"rollout_{uuid.uuid4().hex[:8]}", agent_completed=False, agent_timed_out=False)
        state.update(agent_exit_code=None, agent_stdout=None, agent_stderr=None)
        with blaming("get_docker_image"):
            docker_image = _image_name(await maybe_await(self.get_docker_image(state)))
        with blaming("get_sandbox_resources"):
            resources = await maybe_await(self.get_sandbox_resources(state))
        with blaming("create_sandbox"):
            await maybe_await(self.create_sandbox(state, self._request(state, docker_image, resources)))
        await self._start(state)
        return state

    def _request(self, state: State, docker_image: str, resources: Mapping[str, Any]) -> SandboxRequest:
        settings = self._sandboxes.settings.with_resources(resources)
        return SandboxRequest(
            name=state["rollout_id"],
            docker_image=docker_image,
            start_command=settings.start_command,
            **{name: getattr(settings, name) for name in ("cpu_cores", "memory_gb", "disk_size_gb")},
            timeout_minutes=settings.timeout_minutes,
            environment_vars=self.environment_vars,
            labels=tuple(settings.labels or ()),
        )

    async def create_sandbox(self, state: State, request: Any) -> str:
        """Make the sandbox of a rollout and have `post_sandbox_setup` furnish it; returns its id.

        An override may change the request: image, resources, variables.
        """
        from seatrial.env.agent_run import Interception  # noqa: PLC0415 - see the top
        from seatrial.gateway.access import ModelAccess  # noqa: PLC0415
        from seatrial.gateway.prices import load_prices  # noqa: PLC0415
        from seatrial.gateway.session import SessionOptions  # noqa: PLC0415

        asks_itself = type(self).get_model_response is CliAgentEnv.get_model_response
        interception = Interception(state["model"], state["client"] if asks_itself else None)
        prices = load_prices(Path(self.prices) if self.prices else None)
        model = ModelAccess(interception, SessionOptions(translation=self.translate), prices)
        agent = AgentState(interception, await self._make_workplace(state, request, model))
        rollout_of(state).agent = agent
        rollout_of(state).resources.push_async_callback(agent.model.aclose)
        await self._open_model(state)
        minutes = self._sandboxes.settings.timeout_minutes
        with blaming("post_sandbox_setup"):
            async with _within(minutes, f"post_sandbox_setup has not ended within timeout_minutes={minutes}"):
                await call_hook(self.post_sandbox_setup, state=state, sandbox_client=self.sandbox_client)
        return str(state["sandbox_id"])

    async def _open_model(self, state: State) -> None:
        """Open the agent's way to its model, and tell it and the hooks' commands of it."""
        agent = agent_of(state)
        agent.access = await agent.model.enter_async_context(agent.workplace.open_model(self.interception_port or 0))
        state["interception_base_url"] = agent.model_variables["OPENAI_BASE_URL"]
        with blaming("build_env_vars"):
            agent.variables = _variables_for(await maybe_await(self.build_env_vars(state)))
        self.sandbox_client.set_variables(state["sandbox_id"], agent.variables)

    async def _start(self, state: State) -> None:
        with blaming("start_agent"):
            await call_hook(self.start_agent, state=state, sandbox_client=self.sandbox_client)
        agent_of(state).adopt(state, self.sandbox_client)

    async def _make_workplace(self, state: State, request: Any, model: "ModelAccess") -> Workplace:
        """Where the agent works. Its sandbox is destroyed with the rollout's resources."""
        settings = self._sandboxes.settings.for_request(request)
        env = dict(request.environment_vars or {})
        sandbox, network = await self._sandboxes.make(state, request.docker_image, WORKDIR, env, settings)
        capabilities = await (await self._sandboxes.machinery(state)).backend.probe()
        keys: Keys = "any" if capabilities.private_loopback else "own"
        return PlainWorkplace(sandbox, network, self._folder(state), model, state["model"], keys)

    def _folder(self, state: State) -> Path:
        """Where the rollout's files go: where it is stored, else into a directory that is gone with it."""
        rollout = rollout_of(state)
        return rollout.place.folder if rollout.place else rollout.resources.enter_context(Scratch())

    @without_client
    async def start_agent(self, state: State) -> None:
        """Start the agent's command; the rollout's loop answers it from now on."""
        agent = agent_of(state)
        launch = AgentLaunch(("/bin/sh", "-c", self.run_command), env=agent.variables)
        if agent.access is not None:
            agent.access.session.waits.agent_starts(self.timeout_seconds)
        agent.start(state, agent.workplace.run(launch, agent.access))

    async def get_prompt_messages(self, state: State) -> Messages:
        """The messages of the agent's next request, when it comes; none when the agent has ended."""
        agent = agent_of(state)
        agent.turn = await self._next_turn(state)
        if agent.turn is None:
            state["agent_completed"] = True
            return []
        with blaming("normalize_intercepted_messages"):
            messages = as_messages(await maybe_await(self.normalize_intercepted_messages(agent.turn.messages)))
        if not state["trajectory"]:
            return messages
        with blaming("env_response"):
            return [*messages, *as_messages(await maybe_await(self.env_response(messages, state)))]

    async def _is_over(self, state: State) -> bool:
        """As for any conversation; whether the agent has ended shows by what it says next, so it is always asked."""
        return await self.is_completed(state)

    async def _next_turn(self, state: State) -> "InterceptedTurn | None":
        agent = agent_of(state)
        if agent.run is None:
            return None
        if type(self).check_agent_completed is CliAgentEnv.check_agent_completed:
            return await agent.interception.next_turn()
        while True:
            with suppress(TimeoutError):
                return await asyncio.wait_for(agent.interception.next_turn(), self.poll_interval or _POLL_SEC)
            with blaming("check_agent_completed"):
                if await maybe_await(self.check_agent_completed(state)):
                    return None

    async def _ask_model(self, state: State, prompt: Messages) -> Response | None:
        """As for any conversation, as long as the agent runs."""
        run = agent_of(state).run
        asking = super()._ask_model(state, prompt)
        return await (asking if run is None else unless(run.over, asking))

    async def get_model_response(  # noqa: PLR0913 - the names that authors know
        self,
        state: State,
        prompt: Messages | str,
        client: Any = None,
        model: str | None = None,
        tool_defs: list[Any] | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        message_type: str | None = None,
        *,
        oai_tools: list[Any] | None = None,
        tools: list[Any] | None = None,
    ) -> Response | Any:
        """The model's answer to a request of the agent, asked with what else the request says; see Environment."""
        turn, given = agent_of(state).turn, tool_defs or oai_tools or tools
        if turn is None:
            return await super().get_model_response(state, prompt, client, model, given, sampling_args)
        if turn.tools and not given:
            with blaming("normalize_intercepted_tools"):
                given = await maybe_await(self.normalize_intercepted_tools(turn.tools))
        arguments = {**turn.arguments, **(state["sampling_args"] if sampling_args is None else sampling_args)}
        request = chat_request(as_messages(prompt), model or state["model"], given or tools_of(state), arguments)
        completion = await self._complete(state, client, request)
        response = as_response(completion)
        turn.asked = (response, completion)
        return response

    async def add_model_response(self, state: State, prompt: Messages, response: Response) -> None:
        """Take an answer into the state, and let the agent have it. The first request is the rollout's prompt."""
        if not state["trajectory"]:
            state["prompt"] = prompt
        with blaming("normalize_response"):
            kept = as_response(await maybe_await(self.normalize_response(response)))
        await super().add_model_response(state, prompt, kept)
        turn = agent_of(state).turn
        if turn is not None:
            turn.answer(response)

    @stop
    async def agent_completed(self, state: State) -> bool:
        return bool(state.get("agent_completed"))

    async def post_rollout(self, state: State) -> None:
        """See the agent to its end. An override that needs what it left in the sandbox calls this one first."""
        if agent := rollout_of(state).agent:
            await agent.end(state, self.timeout_seconds)

    @cleanup(priority=-100)
    async def destroy_sandbox(self, state: State) -> None:
        """End the agent and destroy its sandbox, after all other handlers.

        With `keep_sandbox_for_scoring` the sandbox of a rollout that is to be scored stays until it has been.
        """
        if self.keep_sandbox_for_scoring and state["error"] is None and state["is_completed"]:
            await self._sandboxes.keep(state)
        else:
            await self._sandboxes.release(state)


@asynccontextmanager
async def _within(minutes: float | None, late: str) -> AsyncIterator[None]:
    """Raise HookError with those words when the block takes longer."""
    limit = asyncio.timeout(None if minutes is None else 60 * minutes)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise HookError(late) from error
        raise


def _image_name(given: Any) -> str:
    """The image that a hook names. Raises TypeError for what is no name."""
    if not isinstance(given, str) or not given:
        raise TypeError(f"it gave {given!r}, expected the name of an image")
    return given


def _variables_for(given: Any) -> dict[str, str]:
    """The variables that a hook gives an agent. Raises TypeError for what no process can have."""
    if not isinstance(given, Mapping):
        raise TypeError(f"it gave {given!r}, expected a table of variables")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"it gave {name!r} the value {value!r}, expected text")
    return dict(given)
