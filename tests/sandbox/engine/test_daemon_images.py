"""Trials in images that only the daemon has: what the agent did to its judge's tools is put back from there."""

from dataclasses import replace

import pytest

from seatrial.images.resolver import ImageResolver
from seatrial.images.sources import EngineSource
from seatrial.model.events import unobserved
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.container import RUN
from tests.attacks.attack import Attack, plant, program
from tests.docker_daemon import IMAGE, needs
from tests.sandbox.engine.support import with_label
from tests.trial.support import ANSWER, SHELL_TEST, Desk, Ran, trial_spec, write_task

pytestmark = needs("docker")

# Busybox has its own commands in its shell, so the verdict depends on a program that it does not know.
DOCKERFILE = f"""FROM {IMAGE}
RUN mkdir -p /usr/local/bin /usr/bin /usr/lib/python3.11 \\
 && echo original | tee /usr/lib/python3.11/json.py > /etc/motd \\
 && printf '#!/bin/sh\\nexec grep "$@"' > /usr/bin/jq && printf '#!/bin/sh\\necho mine' > /usr/local/bin/own \\
 && chmod 755 /usr/bin/jq /usr/local/bin/own
"""
LOOK = f"""{SHELL_TEST.replace("grep", "jq")}
cat /usr/lib/python3.11/json.py > /logs/verifier/library.txt
cat /etc/motd > /logs/verifier/motd.txt
ls -ld /app/pytest.py > /logs/verifier/planted.txt 2>&1
{{ own; theirs; }} > /logs/verifier/programs.txt 2>&1
"""
OWN_SHELL = "cp /bin/busybox /app/sh"
TAKEOVERS = (
    Attack("another jq", program("/usr/bin/jq"), restored=("/usr/bin/jq",)),
    Attack("another shell", f"{OWN_SHELL}\n{program('/bin/sh', '/app/sh')}", restored=("/bin/sh",)),
    Attack("a jq in front of jq", program("/usr/local/bin/jq"), restored=("/usr/local/bin/jq",)),
    Attack(
        "a linked folder of programs",
        f"{program('/app/bin/jq')}\nmv /usr/local/bin /usr/local/old; ln -s /app/bin /usr/local/bin",
        restored=("/usr/local/bin",),
    ),
)


def play(desk: Desk, agent: str, dockerfile: str = DOCKERFILE) -> Ran:
    """Run a trial in the image of a Dockerfile, which the daemon builds once."""
    assert isinstance(desk.backend, EngineBackend)
    files = {"environment/Dockerfile": dockerfile, "tests/test.sh": LOOK}
    spec = trial_spec(write_task(desk.new_folder() / "task", files=files), agent)
    images = ImageResolver(EngineSource(desk.backend.client), unobserved)
    options = spec.options.model_copy(update={"image": "auto"})
    ran = desk.run_spec(replace(spec, options=options), images=images)
    desk.wait(images.close())
    assert with_label(f"{RUN}={desk.backend.run_name}") == [f"seatrial-{desk.backend.run_name}"], "but for the volume"
    return ran


@pytest.mark.parametrize("attack", TAKEOVERS, ids=str)
def test_what_takes_over_the_verifiers_tools_is_that_of_the_image_again(desk, attack):
    ran = play(desk, f"echo wrong > {ANSWER}\n{attack.command}")
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    assert (ran.reward, ran.run.restored) == (0.0, attack.restored)
    assert ran.tags >= {"program_changed", "verifier_tools_restored"}
    assert ran.text("verifier/files/programs.txt").startswith("mine")


def test_honest_work_stays_as_it_is_beside_what_is_put_back(desk):
    theirs = plant("/usr/local/bin/theirs", "#!/bin/sh\necho theirs")
    upgrade = "echo upgraded | tee /usr/lib/python3.11/json.py > /etc/motd; echo '#' >> /usr/bin/jq"
    ran = play(desk, f"echo right > {ANSWER}\n{theirs}\n{upgrade}")
    assert (ran.reward, ran.run.restored) == (1.0, ("/usr/bin/jq", "/usr/lib/python3.11/json.py"))
    assert ran.text("verifier/files/library.txt") == "original\n"
    assert ran.text("verifier/files/motd.txt") == "upgraded\n"
    assert ran.text("verifier/files/programs.txt") == "mine\ntheirs\n"


def test_what_the_image_does_not_have_is_removed_whoever_it_runs_its_commands_as(desk):
    """Also by a user who could not take it away."""
    dockerfile = f"{DOCKERFILE}RUN mkdir -m 777 /app\nUSER 7\n"
    ran = play(desk, f"echo right > {ANSWER}; echo evil > /app/pytest.py", dockerfile)
    assert (ran.reward, ran.run.hidden) == (1.0, ("/app/pytest.py",))
    assert "No such file" in ran.text("verifier/files/planted.txt")


def test_an_image_without_a_shell_is_refused_and_nobodys_zero(desk):
    ran = play(desk, "true", "FROM scratch\nCOPY Dockerfile /note\n")
    assert ran.record.evaluation is None
    assert (ran.failure.cause, ran.failure.phase) == ("HostUnsupportedError", "setup")
    assert "has no /bin/sh" in ran.failure.message
