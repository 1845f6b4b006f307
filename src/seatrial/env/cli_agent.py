"""CliAgentEnv: a command in a sandbox is the agent, and each of its requests to a model is a turn of the rollout."""

import uuid
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seatrial.agents.api import AgentLaunch
from seatrial.agents.environ import model_variables
from seatrial.env.agent_state import AgentState, agent_of
from seatrial.env.arguments import passes_on
from seatrial.env.client import chat_request
from seatrial.env.decorators import cleanup, stop, teardown
from seatrial.env.hooks import blaming, settled
from seatrial.env.messages import Messages, as_messages
from seatrial.env.multi_turn import MultiTurnEnv
from seatrial.env.response import Response, as_response
from seatrial.env.rollout_sandboxes import RolloutSandboxes
from seatrial.env.sandbox_settings import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.state import State, rollout_of
from seatrial.env.workplace import PlainWorkplace, Workplace
from seatrial.errors import UsageError
from seatrial.sandbox.scratch import Scratch

if TYPE_CHECKING:  # an HTTP server and client, and all dialects of models: the first rollout imports them
    from seatrial.env.interception import Interception
    from seatrial.gateway.access import ModelAccess
    from seatrial.gateway.session import Keys

USUAL_SECONDS = 3600.0
_TIMEOUTS = {"OPENAI_TIMEOUT": "600", "OPENAI_REQUEST_TIMEOUT": "600", "HTTPX_TIMEOUT": "600"}


class CliAgentEnv(MultiTurnEnv):
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
    """

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
        if interception_url is not None:
            raise UsageError("interception_url: agents find the model inside their sandbox, so leave it out")
        self.run_command = run_command
        self.interception_port = interception_port
        self.poll_interval = poll_interval  # kept for those who ask; nothing is polled
        self.docker_image = docker_image
        self.translate = translate
        self.prices = None if prices is None else _readable(prices)
        self.environment_vars = dict(settings.environment_vars or {})
        self._sandboxes = RolloutSandboxes(settings)
        self.sandbox_client = self._sandboxes.client

    async def get_docker_image(self, state: State) -> str:
        """The image of a rollout's sandbox."""
        return self.docker_image

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The variables of the agent, and of every command that hooks run in its sandbox."""
        variables = {**_TIMEOUTS, **self.environment_vars, **agent_of(state).model_variables}
        return {**variables, **model_variables(state["model"])} if state["model"] else variables

    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made and before the agent starts: upload files, install what it needs."""

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What is added to a request of the agent before the model sees it, from the second on: nothing."""
        return []

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, furnish it, and start the agent."""
        from seatrial.env.interception import Interception  # noqa: PLC0415 - see the top

        await super().setup_state(state)
        state.update(rollout_id=f"rollout_{uuid.uuid4().hex[:8]}", agent_completed=False, agent_timed_out=False)
        state.update(agent_exit_code=None, agent_stdout=None, agent_stderr=None)
        with blaming("get_docker_image"):
            docker_image = await settled(self.get_docker_image(state))
        interception = Interception(state["model"])
        agent = AgentState(
            interception,
            await self._make_workplace(state, docker_image, _access(interception, self.translate, self.prices)),
        )
        rollout_of(state).agent = agent
        rollout_of(state).resources.push_async_callback(agent.model.aclose)
        agent.access = await agent.model.enter_async_context(agent.workplace.open_model(self.interception_port or 0))
        state["interception_base_url"] = agent.model_variables["OPENAI_BASE_URL"]
        with blaming("build_env_vars"):
            agent.variables = await settled(self.build_env_vars(state))
        self.sandbox_client.set_variables(state["sandbox_id"], agent.variables)
        with blaming("post_sandbox_setup"):
            await settled(self.post_sandbox_setup(state))
        with blaming("start_agent"):
            await settled(self.start_agent(state))
        return state

    async def _make_workplace(self, state: State, docker_image: str, model: "ModelAccess") -> Workplace:
        """Where the agent works. Its sandbox is destroyed with the rollout's resources."""
        sandbox, network = await self._sandboxes.make(state, docker_image, WORKDIR, self.environment_vars)
        capabilities = await (await self._sandboxes.machinery(state)).backend.probe()
        keys: Keys = "any" if capabilities.private_loopback else "own"
        return PlainWorkplace(sandbox, network, self._folder(state), model, state["model"], keys)

    def _folder(self, state: State) -> Path:
        """Where the rollout's files go: where it is stored, else into a directory that is gone with it."""
        rollout = rollout_of(state)
        return rollout.place.folder if rollout.place else rollout.resources.enter_context(Scratch())

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
        agent.turn = await agent.run.next_turn() if agent.run else None
        if agent.turn is None:
            state["agent_completed"] = True
            return []
        messages = agent.turn.messages
        if not state["trajectory"]:
            return messages
        with blaming("env_response"):
            return [*messages, *as_messages(await settled(self.env_response(messages, state)))]

    async def get_model_response(
        self,
        state: State,
        prompt: Messages,
        model: str | None = None,
        tools: list[Any] | None = None,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> Response | Any:
        """The model's answer to a request of the agent, asked with what else the request says; see Environment."""
        turn = agent_of(state).turn
        if turn is None:
            return await super().get_model_response(state, prompt, model, tools, sampling_args)
        arguments = {**turn.arguments, **(state["sampling_args"] if sampling_args is None else sampling_args)}
        request = chat_request(prompt, model or state["model"], tools or turn.tools or state["tools"], arguments)
        completion = await state["client"].complete(request)
        response = as_response(completion)
        turn.asked = (response, completion)
        return response

    async def add_model_response(self, state: State, prompt: Messages, response: Response) -> None:
        """Take an answer into the state, and let the agent have it. The first request is the rollout's prompt."""
        if not state["trajectory"]:
            state["prompt"] = prompt
        await super().add_model_response(state, prompt, response)
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

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """The backend of all rollouts, open for the length of a block."""
        return self._sandboxes.in_use()

    @cleanup(priority=-100)
    async def destroy_sandbox(self, state: State) -> None:
        """End the agent and destroy its sandbox, after all other handlers."""
        await self._sandboxes.release(state)

    @teardown(priority=-100)
    async def close_sandboxes(self) -> None:
        """Close the backend, which stays open for a moment after a rollout."""
        await self._sandboxes.close()


def _readable(prices: str | Path) -> str:
    from seatrial.gateway.pricing import load_prices  # noqa: PLC0415 - slow to import

    load_prices(Path(prices))
    return str(prices)


def _access(
    interception: "Interception", translation: Literal["lenient", "strict"], prices: str | None
) -> "ModelAccess":
    from seatrial.gateway.access import ModelAccess  # noqa: PLC0415 - slow to import
    from seatrial.gateway.pricing import load_prices  # noqa: PLC0415
    from seatrial.gateway.session import SessionOptions  # noqa: PLC0415

    options = SessionOptions(translation=translation)
    return ModelAccess(interception, options, load_prices(Path(prices) if prices else None))
