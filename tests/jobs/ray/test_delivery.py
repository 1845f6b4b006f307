"""What a trial needs on its node, and specs and settings as they read there; also the tests of wire.py's specs."""

import asyncio
from pathlib import Path

import pytest

from seatrial.agents.files import lock_files
from seatrial.errors import JobError, NodeLostError
from seatrial.jobs.ray.delivery import Seats, needs_of, portable, relocated, settings_files, settled
from seatrial.jobs.ray.wire import RunnerSettings, read_spec, write_spec
from seatrial.model.job import AgentFiles, AgentOptions, ModelOptions, TrialOptions

THERE = Path("/node/files")


@pytest.fixture
def agent(tmp_path: Path) -> AgentOptions:
    """One that brings a folder and a file along."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/a.py", "b.py"):
        (tmp_path / name).write_text(name)
    files = tuple(lock_files(AgentFiles(source=str(tmp_path / name))) for name in ("tools", "b.py"))
    return AgentOptions(name="command", command="python3 /agent/b.py", files=files)


def test_a_trial_needs_its_task_and_its_agents_files(make_spec, agent):
    spec = make_spec(agent=agent)
    needs = needs_of(spec)
    assert [(need.kind, need.name) for need in needs] == [("task", None), ("agent", None), ("agent", "b.py")]
    assert [need.digest for need in needs] == [spec.task_digest, *(files.digest for files in agent.files)]


def test_on_its_node_a_trial_finds_them_elsewhere(make_spec, agent):
    spec = make_spec(agent=agent)
    there = relocated(spec, {need.digest: THERE / need.digest for need in needs_of(spec)})
    assert there.task.root == THERE / spec.task_digest
    assert [files.source for files in there.agent.files] == [f"{THERE}/{files.digest}" for files in agent.files]
    assert (there.trial_id, there.task.config, there.agent.command) == (
        spec.trial_id,
        spec.task.config,
        spec.agent.command,
    )


def test_a_spec_is_the_same_after_its_way(make_spec, agent):
    spec = make_spec(agent=agent, memory=512)
    assert read_spec(write_spec(spec)) == spec


def test_files_that_options_name_are_found_on_the_node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("answers.jsonl", "prices.toml", "ca.pem"):
        (tmp_path / name).write_text(name)
    trial, model = portable(
        TrialOptions(ca_file="ca.pem"), ModelOptions(upstream="scripted:answers.jsonl", prices="prices.toml")
    )
    assert model.upstream == f"scripted:{tmp_path}/answers.jsonl"
    files = settings_files(trial, model)
    assert [need.name for need in files] == ["answers.jsonl", "prices.toml", "ca.pem"]
    there = settled(
        RunnerSettings(trial=trial, model=model, files=files),
        {need.digest: THERE / (need.name or "") for need in files},
    )
    assert (there.model.upstream, there.model.prices, there.trial.ca_file) == (
        f"scripted:{THERE}/answers.jsonl",
        f"{THERE}/prices.toml",
        f"{THERE}/ca.pem",
    )


def test_the_answers_of_a_verifiers_model_are_sent_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge.jsonl").write_text("")
    trial, model = portable(TrialOptions(verifier_upstream="cache:kept,scripted:judge.jsonl"), ModelOptions())
    (need,) = files = settings_files(trial, model)
    there = settled(RunnerSettings(trial=trial, model=model, files=files), {need.digest: THERE})
    assert there.trial.verifier_upstream == f"cache:{tmp_path}/kept,scripted:{THERE}"


def test_options_without_files_stay_as_they_are():
    trial, model = portable(TrialOptions(), ModelOptions(upstream="https://example.org/v1"))
    settings = RunnerSettings(trial=trial, model=model, files=settings_files(trial, model))
    assert settled(settings, {}) == settings
    assert (trial, model) == (TrialOptions(), ModelOptions(upstream="https://example.org/v1"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(JobError, match=r"ca\.pem: cannot be read"):
        settings_files(TrialOptions(ca_file=str(tmp_path / "ca.pem")), ModelOptions())


def test_settings_show_no_variables():
    secret = RunnerSettings(trial=TrialOptions(), model=ModelOptions(), variables={"KEY": "s3cret"})
    assert "s3cret" not in repr(secret)


def test_a_cache_is_found_at_the_same_path_and_what_is_behind_it_is_sent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("script.jsonl").write_text("")
    trial, model = portable(TrialOptions(), ModelOptions(upstream="cache:kept,scripted:script.jsonl"))
    assert model.upstream == f"cache:{tmp_path}/kept,scripted:{tmp_path}/script.jsonl"
    (need,) = files = settings_files(trial, model)
    there = settled(RunnerSettings(trial=trial, model=model, files=files), {need.digest: THERE})
    assert there.model.upstream == f"cache:{tmp_path}/kept,scripted:{THERE}"


def seats(**nodes: tuple[int, int]) -> Seats:
    found = Seats()
    for name, (slots, memory) in nodes.items():
        found.add(name, slots, memory)
    return found


async def taken(source: Seats, *needs: int, avoid: frozenset[str] = frozenset()) -> list[str]:
    return [(await source.take(need, avoid)).node for need in needs]


def waiting(source: Seats, need: int = 0, *avoid: str):
    return asyncio.ensure_future(source.take(need, frozenset(avoid)))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_trials_are_spread_by_free_seats():
    assert asyncio.run(taken(seats(one=(3, 100), two=(1, 100)), 0, 0, 0, 0)) == ["one", "one", "one", "two"]


def test_a_node_to_avoid_is_taken_only_without_another():
    async def run():
        source = seats(one=(9, 100), two=(1, 100))
        first = await taken(source, 0, avoid=frozenset({"one"}))
        second = waiting(source, 0, "one")
        await turns()
        assert not second.done()
        source.remove("two")
        return first, (await second).node

    assert asyncio.run(run()) == (["two"], "one")


def test_memory_is_counted_on_each_node():
    async def run():
        source = seats(one=(4, 100), two=(4, 60))
        seat = await source.take(80)
        assert (await source.take(50)).node == "two"
        large = waiting(source, 70)
        await turns()
        assert not large.done()
        source.give_back(seat)
        return (await large).node

    assert asyncio.run(run()) == "one"


def test_what_no_node_holds_runs_alone_on_the_largest():
    async def run():
        source = seats(one=(4, 100), two=(4, 60))
        seat = await source.take(500)
        after = waiting(source, 90)
        await turns()
        assert not after.done()
        source.give_back(seat)
        return seat.node, (await after).node

    assert asyncio.run(run()) == ("one", "one")


def test_nobody_overtakes():
    async def run():
        source = seats(one=(2, 100))
        seat = await source.take(60)
        large, small = waiting(source, 90), waiting(source, 10)
        await turns()
        assert not large.done()
        assert not small.done()
        source.give_back(seat)
        return [(await each).memory_mb for each in (large, small)]

    assert asyncio.run(run()) == [90, 10]


def test_a_resting_node_gives_no_seats_until_it_wakes():
    async def run():
        source = seats(one=(2, 100))
        source.rest("one")
        waiter = waiting(source)
        await turns()
        assert not waiter.done()
        source.wake("one")
        return (await waiter).node

    assert asyncio.run(run()) == "one"


def test_a_late_node_gives_seats_to_those_who_wait():
    async def run():
        source = seats()
        waiter = waiting(source)
        await turns()
        source.add("late", 1, 100)
        return (await waiter).node

    assert asyncio.run(run()) == "late"


def test_a_seat_on_a_node_that_is_gone_at_once_is_none():
    async def run():
        source = seats()
        waiter = waiting(source)
        await turns()
        source.add("late", 1, 100)
        source.remove("late")
        source.add("other", 1, 100)
        return (await waiter).node

    assert asyncio.run(run()) == "other"


@pytest.mark.parametrize("let_in", [False, True], ids=["still waiting", "just let in"])
def test_who_gives_up_takes_no_seat(let_in):
    async def run():
        source = seats(one=(1, 100))
        seat = await source.take(0)
        first, second = waiting(source), waiting(source)
        await turns()
        if let_in:
            source.give_back(seat)
        first.cancel()
        await asyncio.wait((first,))
        if not let_in:
            source.give_back(seat)
        return (await second).node

    assert asyncio.run(run()) == "one"


def test_a_seat_that_becomes_free_while_all_give_up_goes_to_who_comes_next():
    async def run():
        source = seats(one=(1, 100))
        seat = await source.take(0)
        leaving = [waiting(source) for _ in range(3)]
        await turns()
        for each in leaving:
            each.cancel()
        source.give_back(seat)
        await asyncio.wait(leaving)
        assert all(each.cancelled() for each in leaving)
        return (await source.take(0)).node

    assert asyncio.run(run()) == "one"


def test_without_nodes_for_too_long_all_are_told():
    async def run():
        source = seats()
        waiter = waiting(source)
        await turns()
        source.fail(NodeLostError("no node"))
        await waiter

    with pytest.raises(NodeLostError, match="no node"):
        asyncio.run(run())
