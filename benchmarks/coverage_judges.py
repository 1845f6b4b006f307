"""How often corrected pass rates hold the truth, for judges of known error and people's labels on a random slice.

A judge passes what people would pass with its recall, and fails what people would fail with its specificity. It judges
all trials, people label some of them by lot. Every setting is simulated with a fixed seed by the functions that
`seatrial agree` calls. Two processes take some minutes.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np

from seatrial.stats.corrected import CorrectedRate, Judged, Reviewed, confusion_of, prediction_powered, rogan_gladen

RUNS, GOAL = 2_000, 0.94
RATES = (0.1, 0.3, 0.5, 0.9)
JUDGES = ((0.98, 0.98), (0.9, 0.7), (0.7, 0.9), (0.6, 0.6))
METHODS = ("prediction-powered", "Rogan and Gladen", "the judge alone")


@dataclass(frozen=True, slots=True)
class Setting:
    """A judge, and what it judges. In `tasks` of several trials each, an agent passes most of them or few."""

    rate: float
    recall: float
    specificity: float
    trials: int
    labels: int
    tasks: int | None = None

    @property
    def name(self) -> str:
        tasks = f", {self.tasks} tasks" if self.tasks else ""
        judge = f"recall {self.recall}, specificity {self.specificity}"
        return f"rate {self.rate}, {judge}, {self.trials} trials{tasks}, {self.labels} labels"

    def draw(self, rng: np.random.Generator) -> tuple[list[Judged], list[Reviewed]]:
        """What the judge finds everywhere, and people on a random slice."""
        group = np.arange(self.trials) % (self.tasks or self.trials)
        mixed = rng.beta(self.rate * 2, (1 - self.rate) * 2, self.trials)
        people = rng.random(self.trials) < (mixed[group] if self.tasks else self.rate)
        right = rng.random(self.trials) < np.where(people, self.recall, self.specificity)
        verdicts = (people == right).tolist()
        groups = group.tolist()
        chosen = rng.choice(self.trials, self.labels, replace=False).tolist()
        return list(zip(verdicts, groups, strict=True)), [
            Reviewed(verdicts[at], bool(people[at]), 1.0, groups[at]) for at in chosen
        ]


def settings() -> Iterator[Setting]:
    for rate, (recall, specificity) in product(RATES, JUDGES):
        for trials, labels, tasks in ((200, 20, None), (400, 50, None), (1000, 100, None), (400, 100, 40)):
            yield Setting(rate, recall, specificity, trials, labels, tasks)


@dataclass(slots=True)
class Score:
    """Of runs in which a method gave a rate: how many, in how many its interval held the truth, and its mean width."""

    given: int = 0
    held: int = 0
    width: float = 0.0

    def add(self, found: CorrectedRate | None, truth: float) -> None:
        if found is not None:
            self.given += 1
            self.held += found.low <= truth <= found.high
            self.width += found.high - found.low


def simulate(setting: Setting, runs: int = RUNS, seed: int = 32) -> dict[str, Score]:
    rng = np.random.default_rng([seed, *np.frombuffer(setting.name.encode(), np.uint8).tolist()])
    scores = {name: Score() for name in METHODS}
    for _ in range(runs):
        judged, reviewed = setting.draw(rng)
        passed = [Reviewed(verdict, verdict, 1.0, group) for verdict, group in judged]
        found = (
            prediction_powered(judged, reviewed),
            rogan_gladen(judged, confusion_of(reviewed)),
            prediction_powered(judged, passed),  # as if the judge were always right
        )
        for name, rate in zip(METHODS, found, strict=True):
            scores[name].add(rate, setting.rate)
    return scores


def main() -> int:
    every = [*settings()]
    with ProcessPoolExecutor(2) as pool:
        scores = [*pool.map(simulate, every)]
    print("| Method | worst | best | settings below .94 | mean width | no rate |\n|---|---|---|---|---|---|")
    for name in METHODS:
        mine = [score[name] for score in scores]
        shares = [score.held / score.given for score in mine if score.given]
        width = sum(score.width for score in mine) / sum(score.given for score in mine)
        none = 1 - sum(score.given for score in mine) / (RUNS * len(every))
        below = sum(share < GOAL for share in shares)
        print(f"| {name} | {min(shares):.3f} | {max(shares):.3f} | {below} | {width:.3f} | {none:.1%} |")
    failed = 0
    for name in METHODS[:2]:
        for setting, score in zip(every, (each[name] for each in scores), strict=True):
            if score.given and score.held / score.given < GOAL:
                failed += 1
                print(f"{name}: {score.held / score.given:.3f} of {score.given} runs: {setting.name}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
