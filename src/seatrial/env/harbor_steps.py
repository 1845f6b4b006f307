"""A task with steps as one rollout: the agent is run for each step in the same sandbox, and each step is judged."""

import time
from typing import TYPE_CHECKING

from seatrial.env.agent_state import agent_of
from seatrial.env.hooks import blaming, settled
from seatrial.env.known_sandbox import SandboxView
from seatrial.env.monitors import MonitorRubric
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


class StepMonitorRubric(MonitorRubric):
    """Reports `STEP/NAME` for each number that is known of a step; of steps that were not played, there is none."""

    async def score_rollout(self, state: State) -> None:
        """Set the metrics of a state; its reward stays as it is."""
        steps = state.get("step_metrics") or {}
        state["metrics"] = {f"{step}/{name}": value for step, known in steps.items() for name, value in known.items()}


async def until_judged(env: "HarborEnv", state: State) -> None:
    """Play the steps that come after the one that was judged, as long as each is good enough to go on."""
    while (round_ := _next(state)) is not None:
        await _play(env, state, round_)
        await env.judge_round(state)
    if state["error"] is None and state["step"] is not None:
        with blaming("render_completion"):
            state["completion"] = await settled(env.render_completion(state))


def note_step(state: State) -> None:
    """Note how the step went that was just judged, in `step_metrics`: the verifier's own numbers, and ours."""
    trial = rollout_of(state).trial
    if trial is None or trial.step is None or trial.evaluation is None:
        return
    given = trial.evaluation.breakdown or {}
    state.setdefault("step_metrics", {})[trial.step] = {
        **{name: float(value) for name, value in given.items() if isinstance(value, int | float)},
        "reward": trial.rewards[trial.step],
        "num_turns": float(len(state["trajectory"]) - trial.first_turn),
        "agent_timeout": float(bool(state["agent_timed_out"])),
        "agent_error": float(bool(state["agent_exit_code"])),
    }


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
