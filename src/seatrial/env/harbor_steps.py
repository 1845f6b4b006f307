"""A task with steps as one rollout: the agent is run for each step in the same sandbox, and each step is judged."""

import time
from typing import TYPE_CHECKING

from seatrial.env.agent_state import agent_of
from seatrial.env.hooks import blaming, settled
from seatrial.env.known_sandbox import SandboxView
from seatrial.env.state import State, rollout_of
from seatrial.errors import SeatrialError

if TYPE_CHECKING:
    from seatrial.env.harbor import HarborEnv
    from seatrial.trial.rounds import Round

_AFRESH = {
    "is_completed": False,
    "stop_condition": None,
    "agent_completed": False,
    "agent_exit_code": None,
    "agent_timed_out": False,
    "timed_out": False,
    "prompt_too_long": False,
    "background_job": None,
}
"""What is known of an agent, as it is before one starts."""


async def until_judged(env: "HarborEnv", state: State) -> None:
    """Play the steps that come after the one that was judged, as long as each is good enough to go on."""
    while (round_ := _next(state)) is not None:
        await _play(env, state, round_)
        await env.judge_round(state)
    if state["error"] is None and state["step"] is not None:
        with blaming("render_completion"):
            state["completion"] = await settled(env.render_completion(state))


def total_steps(state: State) -> None:
    """Set the reward and evaluation of a rollout to what its steps amount to; they are in `step_rewards`."""
    trial = rollout_of(state).trial
    if trial is None or state["error"] is not None or not trial.rewards:
        return
    state["step_rewards"] = dict(trial.rewards)
    state["reward"], state["evaluation"] = trial.total()


def _next(state: State) -> "Round | None":
    trial = rollout_of(state).trial
    over = trial is None or state["error"] is not None or state["final_env_response"] is not None
    return None if over or trial is None else trial.next_round()


async def _play(env: "HarborEnv", state: State, round_: "Round") -> None:
    """The agent's turn at another step. What goes wrong is on the state, as in the first."""
    began, rollout, agent = time.perf_counter(), rollout_of(state), agent_of(state)
    assert rollout.trial is not None  # noqa: S101 - one of its steps was judged
    rollout.trial.begin(round_, len(state["trajectory"]))
    state.update(_AFRESH, step=round_.name)
    # What the verifier of the step before had is no longer seen: an agent comes.
    known = env.sandbox_client.known(state["sandbox_id"])
    known.view = SandboxView(rollout.trial.trial.sandbox, network=rollout.trial.turn.network, env=known.view.env)
    agent.interception.reopen()
    agent.run = agent.turn = None
    try:
        await env.begin_step(state)
        await env.converse(state)
    except SeatrialError as error:
        state["error"] = state["error"] or error
    await agent.end(state, env.timeout_seconds)
    state["timing"]["generation_ms"] += (time.perf_counter() - began) * 1000
