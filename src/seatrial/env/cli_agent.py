"""CliAgentEnv: a command in a sandbox is the agent, and each of its requests to a model is a turn of the rollout."""

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seatrial.agents.api import AgentLaunch
from seatrial.agents.environ import model_variables
from seatrial.concurrency import unless
from seatrial.env.agent_hooks import AgentHooks
from seatrial.env.agent_state import AgentState, agent_of
from seatrial.env.arguments import passes_on
from seatrial.env.client import chat_request
from seatrial.env.decorators import cleanup, stop
from seatrial.env.hooks import blaming, call_hook, settled, within
from seatrial.env.messages import Messages, as_messages
from seatrial.env.model_access import model_access, readable_prices
from seatrial.env.monitors import OF_AGENTS
from seatrial.env.multi_turn import MultiTurnEnv
from seatrial.env.response import Response, as_response
from seatrial.env.sandbox_client import without_client
from seatrial.env.sandbox_mixin import SandboxMixin
from seatrial.env.sandbox_resources import vars_of, with_resources
from seatrial.env.sandbox_settings import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.sandbox_values import SandboxRequest, image_name, variables_for
from seatrial.env.state import State, rollout_of, tools_of
from seatrial.env.workplace import PlainWorkplace, Workplace
from seatrial.sandbox.scratch import Scratch

if TYPE_CHECKING:  # an HTTP server and client, and all dialects of models: the first rollout imports them
    from seatrial.env.interception import InterceptedTurn
    from seatrial.gateway.access import ModelAccess
    from seatrial.gateway.session import Keys

USUAL_SECONDS = 3600.0
_POLL_SEC = 5.0
_OUR_OWN = frozenset({"backend", "image", "image_map", "image_fallback", "network", "enforcement", "environment_vars"})
_TIMEOUTS = {"OPENAI_TIMEOUT": "600", "OPENAI_REQUEST_TIMEOUT": "600", "HTTPX_TIMEOUT": "600"}


class CliAgentEnv(AgentHooks, SandboxMixin, MultiTurnEnv):
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
    def __init__(  # noqa: PLR0913, PLR0917 - the names that authors of environments know
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
        self.prices = None if prices is None else readable_prices(prices)
        self.environment_vars = dict(settings.environment_vars or {})
        self._use_sandboxes(settings)
        self.add_monitors(*OF_AGENTS)

    async def get_docker_image(self, state: State) -> str:
        """The image of a rollout's sandbox."""
        return self.docker_image

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The variables of the agent, and of every command that hooks run in its sandbox."""
        variables = {**_TIMEOUTS, **self.environment_vars, **agent_of(state).model_variables}
        return {**variables, **model_variables(state["model"])} if state["model"] else variables

    @without_client
    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made and before the agent starts: upload files, install what it needs."""

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What is added to a request of the agent before the model sees it, from the second on: nothing."""
        return []

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, furnish it, and start the agent."""
        await super().setup_state(state)
        state.update(rollout_id=f"rollout_{uuid.uuid4().hex[:8]}", agent_completed=False, agent_timed_out=False)
        state.update(agent_exit_code=None, agent_stdout=None, agent_stderr=None)
        with blaming("get_docker_image"):
            docker_image = image_name(await settled(self.get_docker_image(state)))
        with blaming("get_sandbox_resources"):
            resources = await settled(self.get_sandbox_resources(state))
        with blaming("create_sandbox"):
            await settled(self.create_sandbox(state, self._request(state, docker_image, resources)))
        await self._start(state)
        return state

    def _request(self, state: State, docker_image: str, resources: Mapping[str, Any]) -> SandboxRequest:
        settings = with_resources(self._sandboxes.settings, resources)
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
        from seatrial.env.interception import Interception  # noqa: PLC0415 - see the top

        asks_itself = type(self).get_model_response is CliAgentEnv.get_model_response
        interception = Interception(state["model"], state["client"] if asks_itself else None)
        model = model_access(interception, self.translate, self.prices)
        agent = AgentState(interception, await self._make_workplace(state, request, model))
        rollout_of(state).agent = agent
        rollout_of(state).resources.push_async_callback(agent.close_model)
        await self._open_model(state)
        minutes = self._sandboxes.settings.timeout_minutes
        with blaming("post_sandbox_setup"):
            async with within(minutes, f"post_sandbox_setup has not ended within timeout_minutes={minutes}"):
                await call_hook(self.post_sandbox_setup, state=state, sandbox_client=self.sandbox_client)
        return str(state["sandbox_id"])

    async def _open_model(self, state: State) -> None:
        """Open the agent's way to its model, and tell it and the hooks' commands of it."""
        agent = agent_of(state)
        agent.access = await agent.model.enter_async_context(agent.workplace.open_model(self.interception_port or 0))
        state["interception_base_url"] = agent.model_variables["OPENAI_BASE_URL"]
        with blaming("build_env_vars"):
            agent.variables = variables_for(await settled(self.build_env_vars(state)))
        self.sandbox_client.set_variables(state["sandbox_id"], agent.variables)

    async def _start(self, state: State) -> None:
        with blaming("start_agent"):
            await call_hook(self.start_agent, state=state, sandbox_client=self.sandbox_client)
        agent_of(state).adopt(state, self.sandbox_client)

    async def _make_workplace(self, state: State, request: Any, model: "ModelAccess") -> Workplace:
        """Where the agent works. Its sandbox is destroyed with the rollout's resources."""
        settings = with_resources(self._sandboxes.settings, vars_of(request))
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
        from seatrial.env.agent_run import AgentRun  # noqa: PLC0415 - see the top
        from seatrial.env.interception import RolloutEnded  # noqa: PLC0415

        agent = agent_of(state)
        launch = AgentLaunch(("/bin/sh", "-c", self.run_command), env=agent.variables)
        if agent.access is not None:
            agent.access.session.waits.agent_starts(self.timeout_seconds)
        agent.run = AgentRun(agent.interception, agent.workplace.run(launch, agent.access))
        rollout_of(state).resources.push_async_callback(agent.run.stop, RolloutEnded(503, "the rollout is over"))

    async def get_prompt_messages(self, state: State) -> Messages:
        """The messages of the agent's next request, when it comes; none when the agent has ended."""
        agent = agent_of(state)
        agent.turn = await self._next_turn(state)
        if agent.turn is None:
            state["agent_completed"] = True
            return []
        with blaming("normalize_intercepted_messages"):
            messages = as_messages(await settled(self.normalize_intercepted_messages(agent.turn.messages)))
        if not state["trajectory"]:
            return messages
        with blaming("env_response"):
            return [*messages, *as_messages(await settled(self.env_response(messages, state)))]

    async def _is_over(self, state: State) -> bool:
        """As for any conversation; whether the agent has ended shows by what it says next, so it is always asked."""
        return await self.is_completed(state)

    async def _next_turn(self, state: State) -> "InterceptedTurn | None":
        run = agent_of(state).run
        if run is None:
            return None
        if type(self).check_agent_completed is AgentHooks.check_agent_completed:
            return await run.next_turn()
        while True:
            with suppress(TimeoutError):
                return await asyncio.wait_for(run.next_turn(), self.poll_interval or _POLL_SEC)
            with blaming("check_agent_completed"):
                if await settled(self.check_agent_completed(state)):
                    return None

    async def _ask_model(self, state: State, prompt: Messages) -> Response | None:
        """As for any conversation, as long as the agent runs."""
        run = agent_of(state).run
        asking = super()._ask_model(state, prompt)
        return await (asking if run is None else unless(run.over, asking))

    async def get_model_response(  # noqa: PLR0913, PLR0917 - the names that authors know
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
        """The model's answer to a request of the agent, asked with what else the request says; see Lifecycle."""
        turn, given = agent_of(state).turn, tool_defs or oai_tools or tools
        if turn is None:
            return await super().get_model_response(state, prompt, client, model, given, sampling_args)
        if turn.tools and not given:
            with blaming("normalize_intercepted_tools"):
                given = await settled(self.normalize_intercepted_tools(turn.tools))
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
            kept = as_response(await settled(self.normalize_response(response)))
        await super().add_model_response(state, prompt, kept)
        turn = agent_of(state).turn
        if turn is not None:
            turn.answer(response)

    @stop
    async def agent_completed(self, state: State) -> bool:
        """The agent has ended."""
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
