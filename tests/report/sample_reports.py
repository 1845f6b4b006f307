"""Jobs for reports: one that has something for each section, and one whose names are an attack."""

import random
from typing import Any

from seatrial.analysis.loaded import LoadedJob
from tests.analysis.memory_jobs import memory_job, trial

AGENTS = {"careful": (0.8, 0.40, 95.0), "quick": (0.55, 0.05, 12.0), "guesser": (0.2, 0.004, 3.0)}
"""How good each agent is at a task of middling difficulty, what a trial costs, and how long it takes."""

HOSTILE = (
    "<script>window.attacked = 1</script>",
    '" onmouseover="window.attacked = 1',
    "</script><script>window.attacked = 1</script>",
    "</title></desc></svg><img src=x onerror='window.attacked = 1'>",
    "javascript:window.attacked=1//",
    "{{ 7 * 7 }}{% raw %}",
    "line\u2028end\u2029\r\n\x1b[31m\x00",
    "turned \u202egnp.exe\u202c round",
    "&lt;b&gt; &amp;#x27; %3Cscript%3E #trials?task=x",
    "🙂" * 30,
    "w" * 700,
)


def sample_job(tasks: int = 24, attempts: int = 3, name: str = "bridge-checks") -> LoadedJob:
    """Three agents at tasks of all difficulties, with costs, tags, steps, and a machine that sometimes fails."""
    chance = random.Random(19)
    trials = []
    for index in range(tasks):
        ease = index / max(1, tasks - 1)
        for agent, (skill, cost, seconds) in AGENTS.items():
            for attempt in range(1, attempts + 1):
                passed = chance.random() < min(1.0, max(0.0, skill + ease - 0.5))
                reward = 1.0 if passed else chance.choice((0.0, 0.0, 0.5))
                failed = chance.random() < 0.03
                more = {
                    "cost_usd": cost * chance.uniform(0.6, 1.8),
                    "model_calls": 4,
                    "input_tokens": 4_000,
                    "output_tokens": 500,
                    "duration_sec": seconds * chance.lognormvariate(0, 0.5),
                    "started_at": f"2026-05-{index % 28 + 1:02d}T12:00:00+00:00",
                    "tags": ()
                    if passed or failed
                    else (f"mechanical:{chance.choice(('unit_mismatch', 'sign_error'))}",),
                    "failed_step": "load-cases" if not passed and index % 4 == 0 else None,
                }
                trials.append(trial(f"beam-{index:03d}", agent, None if failed else reward, attempt, **more))
    return memory_job(trials, name=name, attempts=attempts)


def hostile_job() -> LoadedJob:
    """Every name is an attack: of tasks, agents, tags, steps, failures, and of the job."""
    trials = []
    for at, name in enumerate(HOSTILE):
        more: dict[str, Any] = {"tags": (f"human:{name}",), "failed_step": name, "trial_id": f"odd-{at}.{at}.h0"}
        trials.append(trial(name, HOSTILE[at % 3], float(at % 2), **more))
        more = {"failure": f"SandboxError: {name}", "trial_id": f"odd-{at}.x.h1", "warnings": (name,)}
        trials.append(trial(name, HOSTILE[(at + 1) % 3], None if at % 2 else 1.0, **more))
    return memory_job(trials, name="hostile")
