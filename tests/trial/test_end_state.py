"""End states that are judged many times: in one sandbox while nobody touches it, never by what is left of before."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from seatrial.model.record import FileChanges
from seatrial.testing.fake import FakeBackend, answer
from seatrial.trial.end_state import Edit, EndState, Judged, OddFile, StateBench, files_below
from seatrial.trial.place import find_place
from seatrial.trial.repeats import KeptTrial, kept_verification
from seatrial.trial.rounds import rounds_of
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.verification import Verification
from seatrial.trial.work import DID_NOTHING, Work
from tests.conftest import sampled
from tests.sandbox.embedded.support import MODES, PYTHON, needs_python, needs_root
from tests.trial.support import ANSWER, SHELL_TEST, Desk, open_desk, trial_spec, write_task

T = TypeVar("T")
RIGHT, WRONG = Edit(ANSWER, b"right\n"), Edit(ANSWER, b"wrong\n")
SHOW = f"#!/bin/sh\n{{ stat -c '%a %u:%g' {ANSWER}; ls /app; }} > /logs/verifier/seen.txt 2>&1\n"


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("desk"), MODES[0]) as opened:
        yield opened


@pytest.fixture(scope="module")
def shifted(tmp_path_factory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("shifted"), MODES[-1]) as opened:
        yield opened


async def untouched(spec: TrialSpec, machinery: Machinery, folder: Path) -> EndState:
    """The environment of a task in which nobody has done anything."""
    work = Work(None, FileChanges(), FileChanges(), (), (), folder)
    place = await find_place(spec, machinery)
    return EndState(Verification(spec, rounds_of(spec.task)[0], place, folder, DID_NOTHING, work))


def at_bench(
    desk: Desk, spec: TrialSpec, folder: Path, use: Callable[[StateBench, EndState], Coroutine[Any, Any, T]]
) -> tuple[T, StateBench]:
    """Let a test use a bench, with the untouched environment of a task or the kept end state of what an agent did."""

    async def work() -> tuple[T, StateBench]:
        machinery = Machinery(desk.backend)
        async with StateBench(machinery) as bench:
            return await use(bench, await untouched(spec, machinery, folder)), bench

    return desk.wait(work())


def kept(desk: Desk, spec: TrialSpec) -> EndState:
    """The end state that a trial of an agent left."""
    ran, round_ = desk.run_spec(spec), rounds_of(spec.task)[-1]
    trial = KeptTrial(ran.record, ran.folder)
    place = desk.wait(find_place(spec, Machinery(desk.backend)))
    return EndState(kept_verification(spec, round_, place, trial, ran.folder), archive=trial.archive(round_))


def rewards(judged: list[Judged]) -> list[float]:
    return [each.evaluation.reward for each in judged]


@needs_root
def test_a_sandbox_that_nobody_touches_is_judged_again_and_again(desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), f"echo right > {ANSWER}")
    state = kept(desk, spec)

    async def use(bench: StateBench, _: EndState) -> list[Judged]:
        edits: list[tuple[Edit, ...]] = [(), (WRONG,), (Edit(ANSWER),), (Edit("/app/other", b"x"), WRONG), ()]
        return [await bench.judge(state, tmp_path / str(number), each) for number, each in enumerate(edits)]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert rewards(judged) == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert (bench.verifications, bench.laid_out) == (5, 1)


@needs_root
@pytest.mark.parametrize(
    "touch",
    sampled(
        [
            f"echo right > {ANSWER}",
            "echo x > /app/new",
            "mkdir /app/empty",
            "chmod 700 /app",
            "rm /app/there",
            "touch -r /app/there /tmp/t; printf two > /app/there; touch -r /tmp/t /app/there; rm /tmp/t",
            "echo x >> /usr/bin/ldd",
            f"(sleep 0.2; echo right > {ANSWER}) > /dev/null 2>&1 &",
        ]
    ),
)
def test_a_sandbox_that_the_verifier_touched_is_made_anew(desk, tmp_path, touch):
    files = {"tests/test.sh": f"{SHELL_TEST}\n{touch}\n"}
    spec = trial_spec(write_task(tmp_path / "task", files=files), "printf one > /app/there")
    state = kept(desk, spec)

    async def use(bench: StateBench, _: EndState) -> list[Judged]:
        return [await bench.judge(state, tmp_path / str(number)) for number in range(2)]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert rewards(judged) == [0.0, 0.0]
    assert bench.laid_out == (1 if touch.endswith("&") else 2)


SCRATCH = [
    "echo x > /tmp/log",
    "mkdir -p /tmp/a/b; echo x > /tmp/a/b/c; ln -s /app /tmp/a/link",
    "echo x > /tmp/agents/new; chmod 600 /tmp/agents/new",
    "t=$(mktemp); rm $t",
]


@needs_root
@pytest.mark.parametrize("touch", sampled(SCRATCH))
def test_files_that_a_verifier_adds_below_tmp_are_removed_and_the_sandbox_is_used_again(desk, tmp_path, touch):
    files = {"tests/test.sh": f"#!/bin/sh\nfind /tmp | sort\n{SHELL_TEST.partition(chr(10))[2]}\n{touch}\n"}
    spec = trial_spec(write_task(tmp_path / "task", files=files), "mkdir /tmp/agents; echo mine > /tmp/agents/own")
    state = kept(desk, spec)

    async def use(bench: StateBench, _: EndState) -> list[Judged]:
        edits: list[tuple[Edit, ...]] = [(), (WRONG,), (RIGHT,), ()]
        return [await bench.judge(state, tmp_path / str(number), each) for number, each in enumerate(edits)]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert rewards(judged) == [0.0, 0.0, 1.0, 0.0]
    assert bench.laid_out == 1
    seen = {(tmp_path / str(number) / "verifier/stdout.txt").read_text() for number in range(4)}
    assert seen == {"/tmp\n/tmp/agents\n/tmp/agents/own\n"}


CREATE, EXCLUSIVE = 0o1000, 0o2000  # IPC_CREAT and IPC_EXCL
OPEN_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR
LEFT_BEHIND = {
    "shared memory": f"shmget(77, 4096, {CREATE | EXCLUSIVE | 0o600})",
    "semaphores": f"semget(77, 1, {CREATE | EXCLUSIVE | 0o600})",
    "message queue": f"msgget(77, {CREATE | EXCLUSIVE | 0o600})",
    "queue with a name": f"mq_open(b'/seventy-seven', {OPEN_NEW}, 0o600, None)",
}


@needs_root
@needs_python
@pytest.mark.parametrize("where", sampled(["desk", "shifted"]))
@pytest.mark.parametrize("call", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_outlives_the_processes_of_a_verifier_is_not_there_for_the_next_one(request, tmp_path, where, call):
    program = f"import ctypes; print(int(ctypes.CDLL(None).{call} >= 0))"
    files = {"tests/test.sh": f'#!/bin/sh\n{PYTHON} -I -c "{program}" > /logs/verifier/reward.txt\n'}
    desk, spec = request.getfixturevalue(where), trial_spec(write_task(tmp_path / "task", files=files))

    async def use(bench: StateBench, state: EndState) -> list[Judged]:
        return [await bench.judge(state, tmp_path / str(number)) for number in range(3)]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert rewards(judged) == [1.0, 1.0, 1.0]
    assert bench.laid_out == 1


@needs_root
@pytest.mark.parametrize(
    "touch",
    sampled(
        [
            "echo x > /tmp/agents/own",
            "rm /tmp/agents/own",
            "chmod 700 /tmp/agents",
            "chmod 755 /tmp",
            "echo x > /tmp/log; echo x > /app/new",
            "mkdir /tmp/agents/new && mv /tmp/agents/own /tmp/agents/new",
        ]
    ),
)
def test_whatever_else_a_verifier_does_below_tmp_has_the_state_laid_out_again(desk, tmp_path, touch):
    files = {"tests/test.sh": f"{SHELL_TEST}\n{touch}\n"}
    spec = trial_spec(write_task(tmp_path / "task", files=files), "mkdir /tmp/agents; echo mine > /tmp/agents/own")
    state = kept(desk, spec)

    async def use(bench: StateBench, _: EndState) -> None:
        for number in range(2):
            await bench.judge(state, tmp_path / str(number))

    assert at_bench(desk, spec, tmp_path, use)[1].laid_out == 2


@needs_root
@pytest.mark.parametrize(
    ("test", "edit", "rewritten"),
    [
        (f"echo right > {ANSWER}", WRONG, {ANSWER: b"right\n"}),
        (f"rm {ANSWER}; echo right > {ANSWER}", WRONG, {ANSWER: b"right\n"}),
        (f"echo right > {ANSWER}", RIGHT, {}),
        (f"rm {ANSWER}", WRONG, {}),
        (f"echo right > {ANSWER}", Edit(ANSWER, odd=OddFile("link", "elsewhere")), {ANSWER: b"right\n"}),
        (f"rm -r {ANSWER}; echo right > {ANSWER}", Edit(ANSWER, odd=OddFile("folder")), {ANSWER: b"right\n"}),
        ("true", Edit(ANSWER, odd=OddFile("folder")), {}),
        (f"echo right > {ANSWER}", Edit(ANSWER), {}),
    ],
)
def test_a_file_that_the_verifier_writes_again_is_told(desk, tmp_path, test, edit, rewritten):
    files = {"tests/test.sh": f"#!/bin/sh\n{test}\necho 1 > /logs/verifier/reward.txt\n"}
    spec = trial_spec(write_task(tmp_path / "task", files=files))

    async def use(bench: StateBench, state: EndState) -> Judged:
        return await bench.judge(state, tmp_path / "judged", [edit])

    assert at_bench(desk, spec, tmp_path, use)[0].rewritten == rewritten


@needs_root
def test_an_edit_has_the_owner_and_mode_of_what_it_replaces(shifted, tmp_path):
    files = {"tests/test.sh": f"{SHOW}{SHELL_TEST}"}
    leave = f"echo right > {ANSWER}; chmod 640 {ANSWER}; chown 1000:1001 {ANSWER}"
    spec = trial_spec(write_task(tmp_path / "task", files=files), leave)
    state = kept(shifted, spec)

    async def use(bench: StateBench, _: EndState) -> list[Judged]:
        edits = [WRONG, Edit(ANSWER, b"wrong", mode=0o400), None]
        return [
            await bench.judge(state, tmp_path / str(number), [each] if each else [])
            for number, each in enumerate(edits)
        ]

    judged, bench = at_bench(shifted, spec, tmp_path, use)
    seen = [(tmp_path / f"{number}/verifier/files/seen.txt").read_text().splitlines()[0] for number in range(3)]
    assert seen == ["640 1000:1001", "400 1000:1001", "640 1000:1001"]
    assert (rewards(judged), bench.laid_out) == ([0.0, 0.0, 1.0], 1)


@needs_root
def test_a_link_or_a_folder_gives_way_to_an_edit(desk, tmp_path):
    leave = f"echo kept > /app/target; ln -s target {ANSWER}; mkdir -p /app/folder/full"
    spec = trial_spec(write_task(tmp_path / "task"), leave)
    state = kept(desk, spec)

    async def use(bench: StateBench, _: EndState) -> list[Judged]:
        first = await bench.judge(state, tmp_path / "a", [RIGHT, Edit("/app/folder", b"file")])
        return [first, await bench.judge(state, tmp_path / "b", [RIGHT]), await bench.judge(state, tmp_path / "c")]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert rewards(judged) == [1.0, 1.0, 0.0]
    assert bench.laid_out == 2  # a folder with what was in it is not put back


@needs_root
def test_what_an_edit_plants_is_kept_from_the_verifier(desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), f"echo wrong > {ANSWER}")
    state = kept(desk, spec)
    forged = Edit("/usr/local/bin/grep", b"#!/bin/sh\nexit 0\n", mode=0o755)

    async def use(bench: StateBench, _: EndState) -> Judged:
        return await bench.judge(state, tmp_path / "judged", [forged])

    judged, _ = at_bench(desk, spec, tmp_path, use)
    assert (judged.evaluation.reward, judged.judgement.disputed) == (0.0, 1.0)
    assert "/usr/local/bin/grep" in (*judged.judgement.run.restored, *judged.judgement.run.hidden)


SEPARATE = f"""
artifacts = ["{ANSWER}"]
[environment]
network_mode = "no-network"
[verifier]
environment_mode = "separate"
"""


@needs_root
def test_a_separate_verifier_gets_what_was_edited(desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task", toml=SEPARATE))

    async def use(bench: StateBench, state: EndState) -> list[Judged]:
        return [await bench.judge(state, tmp_path / str(n), each) for n, each in enumerate([(), (RIGHT,), (WRONG,)])]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert (rewards(judged), bench.laid_out) == ([0.0, 1.0, 0.0], 1)


@needs_root
def test_nothing_of_an_agent_that_left_processes_is_believed_or_waited_for(desk, tmp_path):
    """What those did after its changes had been listed is in the archive, and in no list."""
    plant = "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/grep; chmod 755 /usr/local/bin/grep; sleep 600 &"
    spec = trial_spec(write_task(tmp_path / "task"), f"echo wrong > {ANSWER}; {plant}")
    state = kept(desk, spec)
    listed = replace(state.verification.work, found=FileChanges(), changes=FileChanges())
    state = replace(state, verification=replace(state.verification, work=listed))

    async def use(bench: StateBench, _: EndState) -> Judged:
        return await bench.judge(state, tmp_path / "judged")

    judged, _ = at_bench(desk, spec, tmp_path, use)
    assert (judged.evaluation.reward, judged.judgement.disputed) == (0.0, 1.0)
    assert judged.judgement.run.survivors == ()


SERVED = "#!/bin/sh\ncat /proc/[0-9]*/comm | grep -cx sleep > /logs/verifier/reward.txt\n"


@needs_root
def test_a_state_with_processes_is_made_by_its_agent(desk, tmp_path):
    leave = "sleep 600 & until grep -qx sleep /proc/$!/comm; do :; done"
    spec = trial_spec(write_task(tmp_path / "task", files={"tests/test.sh": SERVED}), leave)

    async def use(bench: StateBench, state: EndState) -> list[Judged]:
        live = EndState(state.verification, live=spec)
        return [await bench.judge(each, tmp_path / str(number)) for number, each in enumerate((state, live, live))]

    judged, bench = at_bench(desk, spec, tmp_path, use)
    assert rewards(judged) == [0.0, 1.0, 1.0]
    assert judged[-1].judgement.run.survivors == ("sleep",)
    assert bench.laid_out == 3


def test_all_sandboxes_are_gone_at_the_end_and_few_are_open_before(tmp_path):
    backend = FakeBackend(lambda *_: answer())
    machinery = Machinery(backend)
    specs = [trial_spec(write_task(tmp_path / f"task{number}")) for number in range(4)]

    async def work() -> None:
        async with StateBench(machinery, most_idle=2) as bench:
            for spec in specs:
                await bench.judge(await untouched(spec, machinery, tmp_path), tmp_path / spec.task.id)
            assert [box.destroyed for box in backend.sandboxes] == [True, True, False, False]
            raise KeyError("whatever happens")

    with pytest.raises(KeyError):
        asyncio.run(work())
    assert all(box.destroyed for box in backend.sandboxes)


def test_whatever_a_verifier_left_running_is_ended_before_anybody_looks(tmp_path):
    backend = FakeBackend(lambda *_: answer())
    machinery, spec = Machinery(backend), trial_spec(write_task(tmp_path / "task"))

    async def work() -> None:
        async with StateBench(machinery) as bench:
            await bench.judge(await untouched(spec, machinery, tmp_path), tmp_path / "judged")

    asyncio.run(work())
    (box,) = backend.sandboxes
    last_run = max(index for index, call in enumerate(box.journal) if call.startswith("exec"))
    assert box.journal[last_run:].index("renew_verifier") < box.journal[last_run:].index("stamps")


def test_a_bench_that_is_not_open_keeps_nothing(tmp_path):
    backend = FakeBackend(lambda *_: answer())
    spec = trial_spec(write_task(tmp_path / "task"))
    machinery = Machinery(backend)

    async def work() -> None:
        state = await untouched(spec, machinery, tmp_path)
        await StateBench(machinery).judge(state, tmp_path / "judged")

    asyncio.run(work())
    assert all(box.destroyed for box in backend.sandboxes)


def test_files_with_odd_names_are_named_as_a_record_can_have_them(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "plain").touch()
    (tmp_path / os.fsdecode(b"odd\xff")).touch()
    assert files_below(tmp_path) == ("/app/plain", r"/odd\xff")
