"""End states that were kept, judged again: the same verdict, another one by other tests, and nothing of the agent."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import ContentError, HostUnsupportedError, SandboxError, UsageError
from seatrial.model.events import Notice
from seatrial.model.record import FileChanges
from seatrial.sandbox.local import LocalBackend
from seatrial.testing.fake import FakeBackend, answer
from seatrial.trial.events import Event
from seatrial.trial.judge import Judgement
from seatrial.trial.place import find_place
from seatrial.trial.repeats import KeptTrial, judge_kept, kept_verification
from seatrial.trial.rounds import rounds_of
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.verify.curate import NOTHING
from tests.conftest import sampled
from tests.sandbox.embedded.support import MODES, needs_root
from tests.trial.support import ANSWER, BUSYBOX, SHELL_TEST, Desk, Ran, needs_busybox, open_desk, trial_spec, write_task

TOOLS = ("sh", "cat", "echo", "grep", "ls", "mkdir", "rm", "chmod", "chown", "stat", "xargs", "sleep", "test", "[")
pytestmark = needs_root
WANTS_WRONG = f"#!/bin/sh\nif grep -qx wrong {ANSWER}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"


@pytest.fixture(scope="module", params=sampled(MODES))
def desk(request, tmp_path_factory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("desk"), request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    """An image that is a folder, with files to remove."""
    root = tmp_path_factory.mktemp("small")
    for folder in ("bin", "app", "tmp", "data/old", "data/turned"):
        (root / folder).mkdir(parents=True)
    shutil.copy(BUSYBOX or "", root / "bin/busybox")
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    for name in ("data/gone", "data/old/inside", "data/turned/inside", "data/kept"):
        (root / name).write_text("of the image\n")
    return str(root)


def again(desk: Desk, spec: TrialSpec, ran: Ran, folder: Path, number: int = -1) -> Judgement:
    """Judge a round of a stored trial once more, the last one unless another is named; its logs go to `folder`."""

    async def judge() -> Judgement:
        machinery, trial = Machinery(desk.backend), KeptTrial(ran.record, ran.folder)
        round_ = rounds_of(spec.task)[number]
        verification = kept_verification(spec, round_, await find_place(spec, machinery), trial, folder)
        return await judge_kept(verification, trial.archive(round_), machinery)

    return desk.wait(judge())


def test_the_same_tests_give_the_same_verdict_and_others_another(desk, tmp_path):
    root = write_task(tmp_path / "task")
    spec = trial_spec(root, f"echo right > {ANSWER}", keep="snapshot")
    ran = desk.run_spec(spec)
    judged = again(desk, spec, ran, tmp_path / "same")
    assert (ran.reward, judged.verdict.value) == (1.0, 1.0)
    assert (judged.provenance, judged.raw.output) == (ran.provenance, judged.raw.output)
    write_task(root, files={"tests/test.sh": WANTS_WRONG})
    other = again(desk, trial_spec(root, "never run"), ran, tmp_path / "other")
    assert other.verdict.value == 0.0
    assert other.provenance.tests_digest != ran.provenance.tests_digest


LOOK = """#!/bin/sh
cd /data
{ ls -R .; stat -c '%n %a %u:%g' . old made kept; cat turned link old/new; } > /logs/verifier/seen.txt 2>&1
echo 1 > /logs/verifier/reward.txt
"""
CHANGE = """
cd /data; rm gone; rm -r old; mkdir old; echo new > old/new; chmod 711 old; rm -r turned; echo file > turned
mkdir made; echo made > made/file; ln -s made/file link; chmod 600 kept; chmod 770 .
"""


@needs_busybox
def test_what_was_removed_replaced_and_changed_is_so_again(desk, small, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task", files={"tests/test.sh": LOOK}), CHANGE, keep="snapshot")
    spec = replace(spec, options=spec.options.model_copy(update={"image": small}))
    ran = desk.run_spec(spec)
    again(desk, spec, ran, tmp_path)
    seen = ran.text("verifier/files/seen.txt")
    assert not {"gone", "inside"} & set(seen.split())
    assert {"old 711 0:0", ". 770 0:0", "kept 600 0:0", "file", "made", "new"} <= set(seen.splitlines())
    assert (tmp_path / "verifier/files/seen.txt").read_text() == seen


FORGED = "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/grep; chmod 755 /usr/local/bin/grep; sleep 600 &"


def test_a_forged_system_is_kept_from_the_verifier_again(desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), f"echo wrong > {ANSWER}; {FORGED}", keep="snapshot")
    ran = desk.run_spec(spec)
    judged = again(desk, spec, ran, tmp_path)
    assert ran.run.survivors
    assert not judged.run.survivors
    assert (ran.reward, judged.verdict.value) == (0.0, 0.0)
    assert (judged.run.restored, judged.run.hidden) == (ran.run.restored, ran.run.hidden)
    assert "/usr/local/bin/grep" in (*judged.run.restored, *judged.run.hidden)
    assert (judged.disputed, ran.record.disputed_reward) == (1.0, 1.0)


SEES_IT = """#!/bin/sh
if cat /proc/[0-9]*/comm | grep -qx sleep; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@pytest.mark.whole
def test_no_program_of_the_agents_lays_out_its_end_state(desk, tmp_path):
    """One that is used for that could leave a process behind, which the verifier would not expect."""
    forge = f"(sleep 0.1; echo right > {ANSWER}) >/dev/null 2>&1 &"
    plant = f"""mkdir -p /app/x; for name in chown chmod xargs; do
    printf '#!/bin/sh\\n{forge}\\nexec /usr/bin/%s "$@"\\n' $name > /usr/local/bin/$name
    done; /usr/bin/chmod 755 /usr/local/bin/*"""
    files = {"tests/test.sh": SHELL_TEST.replace("#!/bin/sh", "#!/bin/sh\nsleep 0.3")}
    spec = trial_spec(write_task(tmp_path / "task", files=files), plant, keep="snapshot")
    ran = desk.run_spec(spec)
    assert (ran.reward, again(desk, spec, ran, tmp_path / "again").verdict.value) == (0.0, 0.0)


def test_programs_that_the_agent_removed_are_not_missed(desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), f"echo right > {ANSWER}; rm /usr/bin/xargs", keep="snapshot")
    ran = desk.run_spec(spec)
    assert (ran.reward, again(desk, spec, ran, tmp_path / "again").verdict.value) == (1.0, 1.0)


def test_holes_and_links_take_no_more_room_than_they_did(desk, tmp_path):
    fill = "cd /app; truncate -s 50M sparse; head -c 1000000 /dev/urandom > a; ln a b; ln a c"
    command = f"echo right > {ANSWER}; {fill}"
    spec = trial_spec(write_task(tmp_path / "task"), command, keep="snapshot")
    ran = desk.run_spec(spec)
    assert ran.reward == 1.0
    kept = ran.record.end_state
    assert kept is not None
    assert 1_000_000 < kept.size < 2_500_000
    on_disk = [ran.folder / "snapshot.tar.zst", *(ran.folder / "snapshot.files").iterdir()]
    assert sum(path.stat().st_size for path in on_disk) == kept.size


def test_more_than_can_be_kept_is_told_and_changes_no_result(desk, tmp_path):
    told: list[Event] = []
    command = f"echo right > {ANSWER}; truncate -s 100G /app/sparse"
    ran = desk.run_spec(trial_spec(write_task(tmp_path / "task"), command, keep="snapshot"), told.append)
    assert ran.reward == 1.0
    assert [event for event in told if isinstance(event, Notice) and "bytes, and the limit is" in event.text]


def test_what_outlived_the_agent_may_have_planted_what_nobody_listed(desk, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), f"echo wrong > {ANSWER}; {FORGED}", keep="snapshot")
    ran = desk.run_spec(spec)
    (ran.folder / "changes.json").write_text(FileChanges(added=(ANSWER,)).model_dump_json())
    judged = again(desk, spec, ran, tmp_path)
    assert judged.verdict.value == 0.0
    assert "/usr/local/bin/grep" in (*judged.run.restored, *judged.run.hidden)
    (ran.folder / "changes.json").unlink()
    with pytest.raises(UsageError, match=r"changes\.json: it is not there"):
        again(desk, spec, ran, tmp_path)


def test_keeping_an_end_state_takes_no_service_from_the_verifier(desk):
    leave = "sleep 600 & until grep -qx sleep /proc/$!/comm; do :; done"
    ran = desk.attack(leave, files={"tests/test.sh": SEES_IT}, keep="snapshot")
    assert ran.reward == 1.0
    assert (ran.folder / "snapshot.tar.zst").is_file()


def test_what_the_first_verifier_did_is_not_there(desk, tmp_path):
    root = write_task(tmp_path / "task", files={"tests/test.sh": f"{SHELL_TEST}\nrm {ANSWER}\n"})
    spec = trial_spec(root, f"echo right > {ANSWER}", keep="snapshot")
    ran = desk.run_spec(spec)
    for number in range(2):
        assert again(desk, spec, ran, tmp_path / str(number)).verdict.value == 1.0


COUNT = f"""#!/bin/sh
case $(cat {ANSWER}) in x) echo 1;; *) echo 0.5;; esac > /logs/verifier/reward.txt
"""
STEP_FILES = {"tests/test.sh": COUNT, "steps/one/instruction.md": "one", "steps/two/instruction.md": "two"}
TWO_STEPS = '[environment]\nnetwork_mode = "no-network"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'


def test_each_step_has_an_end_state_of_its_own(desk, tmp_path):
    root = write_task(tmp_path / "task", toml=TWO_STEPS, files=STEP_FILES, instruction=None)
    spec = trial_spec(root, f"echo x >> {ANSWER}", keep="snapshot")
    ran = desk.run_spec(spec)
    assert [step.evaluation.reward for step in ran.record.steps if step.evaluation] == [1.0, 0.5]
    assert again(desk, spec, ran, tmp_path / "a", 0).verdict.value == 1.0
    assert again(desk, spec, ran, tmp_path / "b", 1).verdict.value == 0.5


SEPARATE = f"""
artifacts = ["{ANSWER}"]
[environment]
network_mode = "no-network"
[verifier]
environment_mode = "separate"
"""


def test_a_separate_verifier_gets_the_artifacts_that_were_kept(desk, tmp_path):
    root = write_task(tmp_path / "task", toml=SEPARATE)
    spec = trial_spec(root, f"echo right > {ANSWER}", keep="snapshot")
    ran = desk.run_spec(spec)
    assert again(desk, spec, ran, tmp_path).verdict.value == 1.0
    manifest = ran.folder / "artifacts/manifest.json"
    manifest.write_text(
        manifest.read_text().replace('"destination": "', '"destination": "../').replace('":"app', '":"../')
    )
    with pytest.raises(UsageError, match="leads out of"):
        again(desk, spec, ran, tmp_path)
    manifest.rename(tmp_path / "elsewhere.json")
    manifest.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UsageError, match=r"manifest\.json: cannot be read: .* symbolic links"):
        again(desk, spec, ran, tmp_path)


def test_the_users_certificates_are_nobodys_change(desk, tmp_path):
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    command = f"echo wrong > {ANSWER}; test -s $SSL_CERT_FILE"
    spec = trial_spec(write_task(tmp_path / "task"), command, keep="snapshot", ca_file=str(tmp_path / "ca.pem"))
    ran = desk.run_spec(spec)
    judged = again(desk, spec, ran, tmp_path)
    assert (ran.agent.exit_code, judged.verdict.value) == (0, 0.0)
    assert (judged.curated, judged.run.appeal) == (NOTHING, None)


@needs_busybox
def test_what_cannot_be_judged_again_is_said(desk, small, tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), f"echo right > {ANSWER}", keep="record")
    ran = desk.run_spec(spec)
    with pytest.raises(UsageError, match="no end state was kept; `--keep snapshot` keeps one"):
        again(desk, spec, ran, tmp_path)
    (ran.folder / "snapshot.tar.zst").write_bytes(b"no archive")
    with pytest.raises(ContentError, match=r"snapshot\.tar\.zst: not the end state of a sandbox"):
        again(desk, spec, ran, tmp_path)
    elsewhere = replace(spec, options=spec.options.model_copy(update={"image": small}))
    with pytest.raises(UsageError, match=r"its end state lies on the image host \(no digest\), and the task now has"):
        again(desk, elsewhere, ran, tmp_path)


def test_an_end_state_that_cannot_be_kept_is_told_and_changes_no_result(tmp_path):
    told: list[Event] = []
    backend = FakeBackend(lambda *_: answer(), fail_on={"pack_layer": SandboxError("no room")})
    spec = trial_spec(write_task(tmp_path / "task"), "work", keep="snapshot")
    record = asyncio.run(run_trial(spec, Machinery(backend), tmp_path, told.append))
    assert record.failure is None
    assert Notice("task.agent.1: its end state could not be kept: no room") in told
    assert not list(tmp_path.glob("*snapshot*"))


@pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")
def test_a_backend_that_shares_the_files_of_this_machine_cannot(tmp_path):
    spec = trial_spec(write_task(tmp_path / "task"), "true", enforcement="partial", backend="local")

    async def judge() -> None:
        async with LocalBackend() as backend:
            machinery = Machinery(backend)
            record = await run_trial(spec, machinery, tmp_path)
            (round_,) = rounds_of(spec.task)
            trial = KeptTrial(record, tmp_path)
            verification = kept_verification(spec, round_, await find_place(spec, machinery), trial, tmp_path / "again")
            await judge_kept(verification, trial.archive(round_), machinery)

    with pytest.raises(HostUnsupportedError, match="the local backend cannot lay out an end state"):
        asyncio.run(judge())
