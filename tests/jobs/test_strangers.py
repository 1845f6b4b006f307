"""What tasks of strangers may not have of this machine, found before anything starts."""

import pytest

from seatrial.errors import JobError
from seatrial.jobs.api import run_trial
from seatrial.jobs.prepare import prepare_job
from seatrial.jobs.strangers import check_images
from seatrial.model.job import TrialOptions
from seatrial.tasks.load import load_task
from tests.jobs.samples import job_spec

OPTIONS = TrialOptions()


@pytest.mark.parametrize(
    ("toml", "files", "place"),
    [
        ('environment.docker_image = "/etc"', {}, "task.toml: environment.docker_image: '/etc'"),
        ('environment.image = "host"', {}, "task.toml: environment.docker_image: 'host'"),
        ('verifier.environment.docker_image = "/x"', {}, "task.toml: verifier.environment.docker_image: '/x'"),
        (
            '[[steps]]\nname = "a"\nverifier.environment.docker_image = "./x"',
            {"steps/a/instruction.md": "Go."},
            "task.toml: steps.a.verifier.environment.docker_image: './x'",
        ),
        ("", {"environment/Dockerfile": "FROM /etc\n"}, "environment/Dockerfile:1: FROM: '/etc'"),
        ("", {"environment/Dockerfile": "FROM a\nCOPY --from=host / /\n"}, "environment/Dockerfile:2: COPY: 'host'"),
        ("", {"tests/Dockerfile": "ARG B=oci:/x\nFROM $B\n"}, "tests/Dockerfile:2: FROM: 'oci:/x'"),
    ],
)
def test_a_task_that_names_a_place_of_this_machine_is_refused_by_name(make_task, tmp_path, toml, files, place):
    make_task("set/honest", toml='environment.docker_image = "python:3.11"')
    task = make_task("set/nosy", toml=toml, files=files)
    with pytest.raises(JobError) as refused:
        prepare_job(job_spec(tasks=(str(tmp_path / "set"),)), tmp_path / "job")
    assert f"task nosy: {task}/{place}" in str(refused.value) or f"task nosy: {place}" in str(refused.value)
    assert "--image-map" in str(refused.value)
    assert "honest" not in str(refused.value)
    assert not (tmp_path / "job").exists()
    with pytest.raises(JobError, match="no task may name"):
        run_trial(task)


@pytest.mark.parametrize(
    "options", [{"image": "host"}, {"image_map": {"/etc": "python:3.11"}}, {"image_map": {"/e*": "/folder"}}]
)
def test_what_the_run_says_instead_is_the_users_own_word(make_task, options):
    task = load_task(make_task(toml='environment.docker_image = "/etc"'))
    check_images([task], TrialOptions(**options))


def test_a_dockerfile_that_is_not_built_is_not_looked_at(make_task):
    task = load_task(make_task(toml='environment.docker_image = "a:1"', files={"environment/Dockerfile": "FROM /etc"}))
    check_images([task], OPTIONS)
    with pytest.raises(JobError, match="FROM: '/etc'"):
        check_images([task], TrialOptions(build="always"))


def test_a_file_that_is_no_dockerfile_is_left_to_the_build(make_task):
    check_images([load_task(make_task(files={"environment/Dockerfile": "\0"}))], OPTIONS)
