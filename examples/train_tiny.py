"""Train a model of some thousand parameters with rewards from real verifiers: `python examples/train_tiny.py`.

Each task shows two letters and wants them in reverse order in a file. A small program in a sandbox asks the model and
writes what it says; `tests/test.sh` of the task judges the file. The update is that of GRPO: each rollout of a task is
held against the others of the same task. Needs PyTorch, curl and some 50 s of CPU time.
"""

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import seatrial as vf

LETTERS = "abcd"
START = len(LETTERS)
ANSWER_LENGTH = 2

TASK = """\
version = "1.0"
[environment]
allow_internet = false
[agent]
timeout_sec = 60
[verifier]
timeout_sec = 60
"""
VERIFIER = """\
#!/bin/sh
# A share for each letter that is right where it stands.
said=$(cat /workspace/answer.txt 2>/dev/null)
first=0 second=0
case "$said" in {first}?) first=1 ;; esac
case "$said" in ?{second}) second=1 ;; esac
case $((first + second)) in 2) reward=1.0 ;; 1) reward=0.5 ;; *) reward=0.0 ;; esac
echo $reward > /logs/verifier/reward.txt
"""
AGENT = """\
asked='{"model": "tiny", "messages": [{"role": "user", "content": "'$(cat /task/instruction.md)'"}]}'
curl -sf "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" -d "$asked" |
    sed 's/.*"content": *"\\([a-d]*\\)".*/\\1/' > answer.txt
"""


class Policy(nn.Module):
    """A recurrent model of letters; its tokens are the numbers of LETTERS, and one that starts the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS) + 1, 16)
        self.recurrent = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, len(LETTERS))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The log probabilities of the token after each of these."""
        return torch.log_softmax(self.head(self.recurrent(self.embedding(tokens))[0]), dim=-1)


def encode(text: str) -> list[int]:
    """The tokens of a prompt: its letters in quotes, then the one that starts the answer."""
    return [LETTERS.index(letter) for letter in text.split("'")[1]] + [START]


def serve(policy: Policy) -> Any:
    """The policy as a client: a function that answers like a chat completion, with token ids and log probabilities."""

    async def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
        prompt = encode(messages[-1]["content"])
        said: list[int] = []
        logprobs: list[float] = []
        with torch.no_grad():
            for _ in range(ANSWER_LENGTH):
                choices = policy(torch.tensor([prompt + said]))[0, -1]
                said.append(int(torch.multinomial(choices.exp(), 1)))
                logprobs.append(float(choices[said[-1]]))
        content = [{"token": LETTERS[token], "logprob": each} for token, each in zip(said, logprobs, strict=True)]
        message = {"role": "assistant", "content": "".join(LETTERS[token] for token in said)}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": said}
        return {"prompt_token_ids": prompt, "choices": [{**choice, "logprobs": {"content": content}}]}

    return answer


def write_tasks(folder: Path, pairs: Sequence[str]) -> None:
    """A task for each pair of letters."""
    for pair in pairs:
        task = folder / f"reverse-{pair}"
        (task / "tests").mkdir(parents=True)
        (task / "task.toml").write_text(TASK)
        (task / "instruction.md").write_text(f"Write '{pair}' in reverse order to answer.txt.\n")
        (task / "tests/test.sh").write_text(VERIFIER.format(first=pair[1], second=pair[0]))


def groups(outputs: Sequence[dict[str, Any]]) -> Iterator[list[tuple[dict[str, Any], float]]]:
    """The rollouts of each task that were judged, each with its advantage over the others."""
    for _, group in itertools.groupby(outputs, key=lambda output: output["example_id"]):
        scored = [output for output in group if output["reward"] is not None]
        rewards = [output["reward"] for output in scored]
        spread = statistics.pstdev(rewards) if rewards else 0.0
        if spread:
            mean = statistics.fmean(rewards)
            yield [(output, (output["reward"] - mean) / spread) for output in scored]


def update(
    policy: Policy, optimizer: torch.optim.Optimizer, outputs: Sequence[dict[str, Any]], epochs: int = 8
) -> None:
    """Some steps of GRPO's clipped objective over the tokens that the model sampled."""
    prompts, said, before, advantages = [], [], [], []
    for output, advantage in itertools.chain.from_iterable(groups(outputs)):
        for turn in output["trajectory"]:
            tokens = turn["tokens"]
            prompts.append(list(tokens["prompt_ids"]))
            said.append(list(tokens["completion_ids"]))
            before.append(list(tokens["completion_logprobs"]))
            advantages.append(advantage)
    if not said:
        return
    prompt_length = len(prompts[0])
    whole = torch.tensor([asked + answer for asked, answer in zip(prompts, said, strict=True)])
    chosen, old = torch.tensor(said), torch.tensor(before)
    gain = torch.tensor(advantages)[:, None]
    for _ in range(epochs):
        predicted = policy(whole[:, :-1])[:, prompt_length - 1 :]
        ratio = (predicted.gather(-1, chosen[..., None])[..., 0] - old).exp()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


async def train(folder: Path, steps: int = 10, rollouts: int = 8, seed: int = 3) -> list[float]:
    """Train, and give back the mean reward of each step; none counts rollouts that came to nothing."""
    torch.set_num_threads(1)  # the sandboxes need the cores more
    torch.manual_seed(seed)
    write_tasks(folder / "tasks", ["ab", "cd", "da", "bc"])
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    env = vf.HarborEnv(run_command=AGENT, dataset_path=folder / "tasks", agent_workdir="/workspace", image="host")
    rewards: list[float] = []
    for step in range(steps):
        begun = time.perf_counter()
        results = await env.evaluate(serve(policy), "tiny", rollouts_per_example=rollouts)
        update(policy, optimizer, results["outputs"])
        rewards.append(results["metadata"]["avg_reward"])
        print(f"step {step + 1:2}: mean reward {rewards[-1]:.3f}, {time.perf_counter() - begun:.1f} s", flush=True)
    await env.teardown()
    return rewards


def main() -> None:
    """Train in a folder that is gone afterwards, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rollouts", type=int, default=8)
    asked = parser.parse_args()
    print(f"{sum(each.numel() for each in Policy().parameters()):,} parameters")
    with tempfile.TemporaryDirectory() as folder:
        rewards = asyncio.run(train(Path(folder), asked.steps, asked.rollouts))
    print(f"from {rewards[0]:.3f} to {rewards[-1]:.3f}")


if __name__ == "__main__":
    main()
