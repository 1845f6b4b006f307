"""The modules of new environments, one for each kind, and the scripts that stand in for a model to try them with."""

from dataclasses import dataclass
from typing import Any

_SINGLE_TURN = '''\
"""{name}: questions with one answer each."""

import seatrial as vf

ROWS = [
    {{"question": "What is 17 + 25?", "answer": "42"}},
    {{"question": "What is 9 * 8?", "answer": "72"}},
    {{"question": "What is 100 - 1?", "answer": "99"}},
]


def correct(completion, answer):
    """1.0 for the number that was asked for, and nothing else."""
    return float(completion[-1]["content"].strip() == answer)


def length(completion):
    """How many characters the answer has; it is reported, and not part of the reward."""
    return len(completion[-1]["content"])


def load_environment(system_prompt: str = "Answer with a number and nothing else.") -> vf.Environment:
    rubric = vf.Rubric([correct])
    rubric.add_metric(length)
    return vf.SingleTurnEnv(dataset=ROWS, system_prompt=system_prompt, rubric=rubric)
'''

_TOOL = '''\
"""{name}: questions that a tool helps to answer."""

import seatrial as vf

STOCK = {{"bolts": 120, "nuts": 75, "washers": 0}}
ROWS = [{{"question": f"How many {{part}} are in stock?", "answer": str(count)}} for part, count in STOCK.items()]


def look_up(part: str) -> str:
    """How many pieces of a part are in stock.

    Args:
        part: the name of the part, such as bolts
    """
    return str(STOCK.get(part, "there is no such part"))


def correct(completion, answer):
    """1.0 for an answer that ends with the right number."""
    words = completion[-1]["content"].split()
    return float(bool(words) and words[-1].strip(".") == answer)


def load_environment(max_turns: int = 4) -> vf.Environment:
    return vf.ToolEnv(dataset=ROWS, tools=[look_up], max_turns=max_turns, rubric=vf.Rubric([correct]))
'''

_MULTI_TURN = '''\
"""{name}: a number to be guessed in a few turns."""

import seatrial as vf

ROWS = [{{"question": "Guess a number from 0 to 9.", "info": {{"number": number}}}} for number in (0, 2, 7)]


class Guessing(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        said, number = messages[-1]["content"].strip(), state["info"]["number"]
        if said == str(number):
            state["final_env_response"] = "right"  # the last word: the model is not asked again
            return "right"
        if not said.isdecimal():
            return "Say a number and nothing else."
        return "higher" if int(said) < number else "lower"


def won(completion):
    return float(completion[-1]["content"] == "right")


def load_environment(max_turns: int = 4) -> vf.Environment:
    return Guessing(dataset=ROWS, rubric=vf.Rubric([won]), max_turns=max_turns)
'''

_ASK = '''\
AGENT = """
import json, os, urllib.request

def ask(text):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
'''

_HARBOR = (
    '''\
"""{name}: an agent on the Harbor tasks in tasks/, each judged by its own tests."""

from pathlib import Path

import seatrial as vf

TASKS = Path(__file__).parent / "tasks"
'''
    + _ASK.replace("{", "{{").replace("}", "}}")
    + '''
instruction = open(os.environ["HARBOR_INSTRUCTION_PATH"]).read()
readings = open("readings.csv").read()
open("result.json", "w").write(ask(instruction + readings))
"""


class OwnAgent(vf.HarborEnv):
    async def post_sandbox_setup(self, state):
        await super().post_sandbox_setup(state)  # the task's instruction.md and task.toml
        await self.sandbox_client.upload_content(state["sandbox_id"], AGENT, "/srv/agent.py")


def load_environment(timeout_seconds: float = 120.0) -> vf.Environment:
    return OwnAgent(
        run_command="python3 /srv/agent.py",
        dataset_path=TASKS,
        agent_workdir="/workspace",
        timeout_seconds=timeout_seconds,
        enforcement="partial",  # run also where the machine cannot enforce a limit that a task asks for
    )
'''
)

_CLI_AGENT = (
    '''\
"""{name}: a command in a sandbox as the agent, and a reward for the file it leaves."""

import seatrial as vf

ROWS = [
    {{"question": "Write the word `harbour` in upper case.", "answer": "HARBOUR"}},
    {{"question": "Write the word `anchor` in upper case.", "answer": "ANCHOR"}},
]
'''
    + _ASK.replace("{", "{{").replace("}", "}}")
    + '''
open("answer.txt", "w").write(ask(open("/srv/question.txt").read()))
"""


class Writing(vf.CliAgentEnv):
    async def post_sandbox_setup(self, state):
        files = {{"/srv/agent.py": AGENT, "/srv/question.txt": state["prompt"][-1]["content"]}}
        for path, content in files.items():
            await self.sandbox_client.upload_content(state["sandbox_id"], content, path)

    async def post_rollout(self, state):
        await super().post_rollout(state)  # the agent has ended, and its sandbox is still there
        found = await self.sandbox_client.execute_command(state["sandbox_id"], "cat answer.txt")
        state["written"] = found.stdout.strip()


def correct(state, answer):
    return float(state["written"] == answer)


def load_environment(timeout_seconds: float = 120.0) -> vf.Environment:
    return Writing(
        run_command="python3 /srv/agent.py",
        dataset=ROWS,
        rubric=vf.Rubric([correct]),
        timeout_seconds=timeout_seconds,
        enforcement="partial",  # run also where the machine cannot enforce a limit
    )
'''
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of environment: its module, rules for a model without a provider, and the mean reward these get."""

    module: str
    rules: tuple[dict[str, Any], ...]
    mean: float


def _says(contains: str, say: Any) -> dict[str, Any]:
    return {"when": {"contains": contains}, "say": say}


def _calls(part: str) -> dict[str, Any]:
    call = {"name": "look_up", "arguments": {"part": part}}
    return {"when": {"contains": part, "turn": 1}, "say": {"tool_calls": [call]}}


KINDS = {
    "single-turn": Kind(_SINGLE_TURN, (_says("17 + 25", "42"), _says("9 * 8", "72"), {"say": "100"}), 2 / 3),
    "tool": Kind(
        _TOOL,
        (
            *map(_calls, ("bolts", "nuts")),
            *(_says(count, f"There are {count}") for count in ("120", "75")),
            {"say": "There are many"},
        ),
        2 / 3,
    ),
    "multi-turn": Kind(_MULTI_TURN, tuple({"when": {"turn": n + 1}, "say": str(n)} for n in range(4)), 2 / 3),
    "harbor": Kind(_HARBOR, ({"say": '{"mean": 21.083, "maximum": 22.6}'},), 1.0),
    "cli-agent": Kind(_CLI_AGENT, (_says("harbour", "HARBOUR"), {"say": "anchor"}), 0.5),
}
