"""examples/train_tiny.py: the reward rises. The loop, the sandboxes and the verifiers are real, the model is tiny."""

import asyncio
import importlib
import statistics

import pytest

from tests.programs import needs_program

torch = pytest.importorskip("torch", reason="no torch: pip install torch")
recipe = importlib.import_module("examples.train_tiny")


@pytest.mark.whole
@needs_program("curl", "curl")
@pytest.mark.timeout(900)
def test_the_reward_rises(tmp_path):
    rewards = asyncio.run(recipe.train(tmp_path))
    assert statistics.fmean(rewards[:2]) < 0.5
    assert statistics.fmean(rewards[-2:]) > 0.7


def test_an_update_makes_better_answers_likelier_and_worse_ones_less_so():
    torch.manual_seed(0)
    policy = recipe.Policy()
    prompt = recipe.encode("Write 'ab' backwards.")

    def output(said, reward):
        with torch.no_grad():
            after = policy(torch.tensor([prompt + said]))[0]
        logprobs = [float(after[len(prompt) - 1 + at, token]) for at, token in enumerate(said)]
        tokens = {"prompt_ids": prompt, "completion_ids": said, "completion_logprobs": logprobs}
        return {"example_id": 0, "reward": reward, "trajectory": [{"tokens": tokens}]}

    def chance(said):
        return sum(output(said, 0.0)["trajectory"][0]["tokens"]["completion_logprobs"])

    right, wrong = [1, 0], [3, 3]
    before = chance(right), chance(wrong)
    failed: dict[str, object] = {"example_id": 0, "reward": None, "trajectory": []}
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    recipe.update(policy, optimizer, [output(right, 1.0), output(wrong, 0.0), failed])
    assert chance(right) > before[0]
    assert chance(wrong) < before[1]
