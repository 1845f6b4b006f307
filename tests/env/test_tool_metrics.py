"""ToolMonitorRubric: counts of calls, and nothing said about the reward."""

import asyncio

from seatrial.env.state import new_state
from seatrial.env.tool_metrics import ToolMonitorRubric
from tests.env.tool_models import call


def test_calls_are_counted_and_the_reward_is_left_alone():
    state = new_state({"prompt": "q"}, "m", None)
    said = {"role": "assistant", "tool_calls": [call("f", {}), call("g", {}), call("f", {})]}
    state["completion"], state["reward"] = [said, {"role": "tool", "content": "x"}, said], 0.5
    monitor = ToolMonitorRubric(["f", "g", "f"])
    monitor.remove_tool_metric("g")
    monitor.remove_tool_metric("h")
    asyncio.run(monitor.score_rollout(state))
    assert (state["metrics"], state["reward"]) == ({"total_tool_calls": 6.0, "f_calls": 4.0}, 0.5)
