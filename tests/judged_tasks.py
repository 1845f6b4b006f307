"""Tasks whose verifiers ask a model, in the shapes that public datasets have, by the standard library alone."""

from collections.abc import Mapping
from pathlib import Path

from tests.trial.support import ANSWER, write_task

NEEDS_KEY = '[verifier.env]\nOPENAI_API_KEY = "${OPENAI_API_KEY}"\nMODEL_NAME = "judge-1"\n'
BY_ANTHROPIC = '[verifier.env]\nANTHROPIC_API_KEY = "${ANTHROPIC_API_KEY}"\nMODEL_NAME = "claude-judge"\n'
OWN_NAMES = (
    '[verifier.env]\nVLM_API_KEY = "${VLM_API_KEY}"\nVLM_BASE_URL = "${VLM_BASE_URL:-https://models.example/v1}"\n'
    'MODEL_NAME = "judge-1"\n'
)

# Like most of them, it takes any trouble for a no, and writes a reward all the same.
_ASK = f"""
import json, os, pathlib, urllib.request

def post(url, headers, body):
    headers = {{"content-type": "application/json", **headers}}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)

try:
    answer = pathlib.Path("{ANSWER}").read_text()
except OSError:
    answer = ""
question = [{{"role": "user", "content": "Is this right? " + answer}}]
try:
    said = ask(post, os.environ, question)
except Exception as error:
    print("no judge:", error)
    said = "no"
reward = 1.0 if said.lower().startswith("yes") else 0.0
"""
_TEXT_REWARD = 'pathlib.Path("/logs/verifier/reward.txt").write_text(str(reward))\n'
# As rewardkit does: a reward for each criterion, and what the judge said in a file beside it.
_KIT_REWARD = """
folder = pathlib.Path("/logs/verifier")
(folder / "reward.json").write_text(json.dumps({"right": reward}))
(folder / "reward-details.json").write_text(json.dumps({"right": {"score": reward, "reasoning": said}}))
"""
_OPENAI = """
def ask(post, env, messages):
    url = env.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
    headers = {"authorization": "Bearer " + env["OPENAI_API_KEY"]}
    said = post(url, headers, {"model": env["MODEL_NAME"], "messages": messages})
    return said["choices"][0]["message"]["content"]
"""
_VLM = _OPENAI.replace("OPENAI", "VLM")
_ANTHROPIC = """
def ask(post, env, messages):
    url = env.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
    headers = {"x-api-key": env["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    said = post(url, headers, {"model": env["MODEL_NAME"], "max_tokens": 100, "messages": messages})
    return said["content"][0]["text"]
"""
_TEST = "#!/bin/sh\npython3 /tests/ask.py\n"

OPENAI: Mapping[str, str] = {"tests/test.sh": _TEST, "tests/ask.py": f"{_OPENAI}{_ASK}{_TEXT_REWARD}"}
ANTHROPIC: Mapping[str, str] = {"tests/test.sh": _TEST, "tests/ask.py": f"{_ANTHROPIC}{_ASK}{_TEXT_REWARD}"}
VLM: Mapping[str, str] = {"tests/test.sh": _TEST, "tests/ask.py": f"{_VLM}{_ASK}{_TEXT_REWARD}"}
KIT: Mapping[str, str] = {
    "tests/test.sh": "#!/bin/sh\ncd /tests && python3 -m kit /tests\n",
    "tests/kit/__main__.py": f"{_OPENAI}{_ASK}{_KIT_REWARD}",
}
SHAPES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "openai": (NEEDS_KEY, OPENAI),
    "anthropic": (BY_ANTHROPIC, ANTHROPIC),
    "names of its own": (OWN_NAMES, VLM),
    "kit": (NEEDS_KEY, KIT),
}


def judged_task(root: Path, toml: str = NEEDS_KEY, files: Mapping[str, str] = OPENAI) -> Path:
    """A task that wants `right` in /app/answer.txt, and asks a model whether it is."""
    solution = {"solution/solve.sh": f"#!/bin/sh\necho right > {ANSWER}\n"}
    return write_task(root, toml=toml, files={**solution, **files})
