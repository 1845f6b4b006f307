"""What differs between two jobs is named with both values, and what changes the meaning of a reward stands out."""

import datetime as dt

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.analysis.comparability import LOOKED_AT, comparability
from seatrial.analysis.loaded import load_job
from seatrial.model.job import AgentOptions, ModelOptions, TrialOptions
from seatrial.model.record import FirstVerdict, ImportedJob, LimitSpec, Provenance, Regrade, SandboxRef, VerifierRun
from tests.analysis.in_memory import entries, entry, job
from tests.cli.job_folders import BEGUN, DIGEST, make_job, record

TASKS = {"a": [1.0], "b": [0.0]}


def found(first, second):
    return comparability(*arms_of([first, second]))


def named(first, second):
    """Every difference as its weight and its name, with both values."""
    return {(each.weight, each.name): (each.first, each.second) for each in found(first, second).differences}


def test_two_jobs_that_are_the_same_have_no_difference():
    result = found(job("x", entries(TASKS, tests="t", setting="s")), job("y", entries(TASKS, tests="t", setting="s")))
    assert result.differences == result.warnings == ()
    assert result.comparable


@pytest.mark.parametrize(
    ("changes", "weight", "values"),
    [
        ({"pass_threshold": 0.5}, "meaning", ("1", "0.5")),
        ({"reward_policy": "text_first"}, "meaning", ("declared", "text_first")),
        ({"verdict": "exit_status"}, "meaning", ("task", "exit_status")),
        ({"trust": "as_left"}, "meaning", ("image", "as_left")),
        ({"solution": "staged"}, "meaning", ("withheld", "staged")),
        ({"verify_repeats": 3}, "meaning", ("1", "3")),
        ({"isolation": "keep"}, "meaning", ("guarded", "keep")),
        ({"isolation": "kill"}, "condition", ("guarded", "kill")),
        ({"backend": "docker"}, "condition", ("embedded", "docker")),
        ({"memory_mb": 64}, "condition", ("none", "64")),
        ({"agent_timeout_multiplier": 2.0}, "condition", ("1", "2")),
        ({"image_map": {"python:3": "host"}}, "condition", ("none", "python:3=host")),
        ({"proxy": "host"}, "condition", ("direct", "host")),
    ],
)
def test_options_of_trials(changes, weight, values):
    other = job("y", entries(TASKS), trial=TrialOptions(**changes))
    (name,) = changes
    assert named(job("x", entries(TASKS)), other) == {(weight, name): values}
    assert found(other, job("x", entries(TASKS))).comparable == (weight != "meaning")


def test_where_a_job_was_kept_or_built_does_not_matter():
    other = job("y", entries(TASKS), trial=TrialOptions(keep="record", build="always", unfit="run"))
    assert named(job("x", entries(TASKS)), other) == {}


def test_tasks_that_nobody_asked_for_are_not_named():
    small, large = job("x", entries(TASKS)), job("y", entries({**TASKS, "z": [1.0]}))
    assert ("condition", "tasks that only this side has") in named(small, large)
    assert named(small.where("task=a|b"), large.where("task=a|b")) == {}


def test_models_versions_and_attempts_are_conditions():
    more = {"model": ModelOptions(temperature=0.5), "version": "2", "attempts": 4, "tasks": ["a", "b", "c"]}
    assert named(job("x", entries(TASKS)), job("y", entries(TASKS), **more)) == {
        ("condition", "model temperature"): ("none", "0.5"),
        ("condition", "attempts"): ("1", "4"),
        ("condition", "Seatrial version"): ("1", "2"),
        ("condition", "tasks that only this side has"): ("0", "1"),
    }


def test_what_is_compared_is_shown_as_such_and_no_secret_is():
    agents = [
        AgentOptions(name="oracle", version="1", env={"KEY": "hush", "SAME": "1"}),
        AgentOptions(name="oracle", version="2", model="m", env={"SAME": "1"}),
    ]
    first, second = (job(str(index), entries(TASKS), agents=(agent,)) for index, agent in enumerate(agents))
    assert named(first, second) == {
        ("subject", "agent version"): ("1", "2"),
        ("subject", "agent model"): ("none", "m"),
        ("subject", "agent variables"): ("KEY (set)", "KEY (not set)"),
    }


def test_another_content_of_a_task_changes_what_its_reward_means():
    other = job("y", entries({**TASKS, "c": [1.0]}), digests={"b": "e" * 64, "c": "f" * 64})
    first = job("x", entries(TASKS), tasks=["a", "b", "c"])
    (changed,) = found(first, other).of("meaning")
    assert (changed.name, changed.first, changed.second) == ("content of the task", DIGEST[:12], "e" * 12)
    assert (changed.tasks, changed.example) == (1, "b")  # c was not judged on both sides


def test_other_tests_change_what_a_reward_means_also_for_part_of_the_attempts():
    first = [entry("a", 1.0, tests="old"), entry("a", 1.0, attempt=2, tests="old"), entry("b", 1.0, tests="old")]
    second = [entry("a", 1.0, tests="old"), entry("a", 1.0, attempt=2, tests="new"), entry("b", 1.0, tests="old")]
    assert named(job("x", first), job("y", second)) == {("meaning", "tests that judged"): ("old", "new, old")}
    assert not found(job("x", second), job("y", second)).comparable


def test_tests_that_nobody_noted_are_no_difference():
    assert named(job("x", entries(TASKS)), job("y", entries(TASKS))) == {}


def test_what_happened_to_trials_is_counted_where_it_is_not_the_same():
    happened = [entry("a", 1.0, oom_kills=2)._replace(tries=2), entry("b", 0.0, disputed_reward=1.0, prices="p")]
    assert named(job("x", entries(TASKS)), job("y", happened)) == {
        ("condition", "trials with processes killed for memory"): ("0 of 2", "1 of 2"),
        ("condition", "trials that took several tries"): ("0 of 2", "1 of 2"),
        ("condition", "disputed verdicts"): ("0 of 2", "1 of 2"),
        ("condition", "prices"): ("none", "p"),
    }


def test_many_trials_without_a_verdict_on_one_side_are_a_warning():
    first = job("x", entries({"a": [1.0], "b": [0.0], "c": [1.0], "d": [1.0]}))
    second = job("y", entries({"a": [1.0], "b": [None], "c": [None], "d": [1.0]}))
    result = found(first, second)
    assert [line for line in result.warnings if line.startswith("0% and 50% of the trials have no verdict")]
    assert ("condition", "trials without a verdict") in named(first, second)
    assert named(first, second)["condition", "judged tasks that the other lacks"] == ("2", "0")


def test_a_job_that_is_not_at_its_end_is_a_warning():
    first, second = job("x", entries(TASKS), tasks=["a", "b", "c"]), job("y", entries(TASKS), tasks=["a", "b", "c"])
    assert [line for line in found(first, second).warnings if "1 planned trial of oracle (x) has no record yet" in line]


def place(memory: int | None = None, image: str = "host", backend: str = "null") -> SandboxRef:
    return SandboxRef(backend=backend, image=image, network="none", limits_enforced=LimitSpec(memory_mb=memory))


def on_disk(folder, *records, **spec):
    make_job(folder, *records, **spec)
    return load_job(folder)


def test_other_settings_are_explained_from_the_records(tmp_path):
    first = on_disk(tmp_path / "x", *(record(task, 1.0, sandbox=place()) for task in "abc"))
    second = on_disk(
        tmp_path / "y",
        record("a", 1.0, sandbox=place(64)),
        record("b", 1.0, sandbox=place(64, "new\x1b[2J")),
        record("c", 1.0, sandbox=place()),
    )
    differences = {each.name: each for each in found(first, second).of("condition")}
    assert differences.keys() == {"memory_mb enforced", "image"}
    memory, image = differences["memory_mb enforced"], differences["image"]
    assert (memory.first, memory.second, memory.tasks, memory.example) == ("unlimited", "64", 2, "a")
    assert (image.first, image.second, image.tasks, image.example) == ("host", "new [2J", 1, "b")


def test_a_verdict_beside_processes_of_the_agent_means_something_else(tmp_path):
    runs = [VerifierRun(exit_code=0, duration_sec=0.1, isolation=level) for level in ("exposed", "guarded")]
    first, second = (
        on_disk(tmp_path / run.isolation, record("a", 1.0, verifier_run=run, sandbox=place())) for run in runs
    )
    (weaker,) = found(first, second).of("meaning")
    assert (weaker.name, weaker.first, weaker.second) == ("isolation", "exposed", "guarded")


def test_no_more_records_are_read_than_it_takes(tmp_path, monkeypatch):
    tasks = [f"t{index}" for index in range(LOOKED_AT + 3)]
    first, second = (job(name, [entry(task, 1.0, setting=f"{name}-{task}") for task in tasks]) for name in ("x", "y"))
    read = []

    def reading(task):
        read.append(task)
        return record("a", 1.0, sandbox=place(len(read)))

    monkeypatch.setattr(first.store, "record", reading)
    monkeypatch.setattr(second.store, "record", reading)
    differences = {each.name: each.tasks for each in found(first, second).differences}
    assert differences == {"memory_mb enforced": LOOKED_AT, "other settings, not read": 3}
    assert len(read) == 2 * LOOKED_AT


def regraded(folder, options, **spec):
    """A job whose only trial was judged again by other options than the job's."""
    again = Regrade(
        id="r",
        seatrial_version="1",
        started_at=BEGUN,
        finished_at=BEGUN + dt.timedelta(seconds=1),
        first=FirstVerdict(outcome="pass", reward=1.0),
        task_digest=DIGEST,
        options=options,
    )
    by = Provenance(tests_digest=DIGEST, reward_file="reward.json")
    store = make_job(folder, record("a", 1.0, provenance=by), **spec)
    again_by = {"regrade": again, "provenance": by, "pass_threshold": options.get("pass_threshold", 1.0)}
    with store.draft("a.oracle.1", 1) as draft:
        draft.commit(record("a", 0.0, revision=1, parent="a.oracle.1", **again_by))
    return load_job(folder)


def test_options_of_a_regrade_count_like_those_of_the_job(tmp_path):
    by = Provenance(tests_digest=DIGEST, reward_file="reward.json")
    first = on_disk(tmp_path / "x", record("a", 1.0, provenance=by))
    second = regraded(tmp_path / "y", {"verdict": "exit_status", "verifier_timeout_multiplier": 2.0})
    assert named(first, second) == {
        ("meaning", "verdict"): ("task", "exit_status"),
        ("condition", "verifier_timeout_multiplier"): ("1", "2"),
        ("condition", "trials judged again"): ("0 of 1", "1 of 1"),
    }


def test_what_was_judged_again_as_the_other_can_be_compared(tmp_path):
    by = Provenance(tests_digest=DIGEST, reward_file="reward.json")
    half = {"trial": TrialOptions(pass_threshold=0.5)}
    first = on_disk(tmp_path / "x", record("a", 1.0, provenance=by), **half)
    assert named(first, regraded(tmp_path / "y", {"pass_threshold": 0.5})) == {
        ("condition", "trials judged again"): ("0 of 1", "1 of 1"),
    }
    stricter = regraded(tmp_path / "z", {"pass_threshold": 1.0}, **half)
    assert not found(first, stricter).comparable
    assert (first.thresholds, stricter.thresholds) == ((0.5,), (1.0,))


def test_a_verifier_beside_the_agent_is_no_better_when_it_judges_again(tmp_path):
    by = Provenance(tests_digest=DIGEST, reward_file="reward.json")
    first = on_disk(tmp_path / "x", record("a", 1.0, provenance=by))
    assert not found(first, regraded(tmp_path / "y", {"isolation": "keep"})).comparable
    assert found(first, regraded(tmp_path / "z", {"isolation": "kill"})).comparable


def test_tests_that_only_one_side_knows_are_named():
    first, second = job("x", entries(TASKS, tests="t")), job("y", entries(TASKS))
    assert named(first, second) == {("condition", "tests that judged"): ("t", "unknown")}


def test_an_isolation_that_no_verifier_told_is_unknown(tmp_path):
    run = VerifierRun(exit_code=0, duration_sec=0.1, isolation="guarded")
    told = on_disk(tmp_path / "told", record("a", 1.0, verifier_run=run, sandbox=place()))
    silent = on_disk(tmp_path / "silent", record("a", 1.0, sandbox=place()))
    assert named(told, silent)["condition", "isolation"] == ("guarded", "unknown")


def imported(name, reward_range):
    made = job(name, entries(TASKS))
    source = ImportedJob(format="harbor", sha256=DIGEST, reward_range=reward_range)
    made.store.file = made.file.model_copy(update={"imported": source})
    return made


def test_rewards_that_were_mapped_from_another_range_mean_something_else():
    wide = imported("x", (-1.0, 1.0))
    assert named(wide, imported("y", None)) == {("meaning", "rewards of the source"): ("-1 to 1", "0 to 1")}
    assert found(wide, imported("y", (-1.0, 1.0))).comparable
    assert found(imported("x", None), job("y", entries(TASKS))).comparable
