"""What the files of strangers ask of this machine, refused before anything starts unless the user allowed it."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from seatrial.errors import BuildError, JobError
from seatrial.images.building.named import images_named_in
from seatrial.images.choice import why_refused
from seatrial.model.job import TrialOptions
from seatrial.model.task import Task
from seatrial.tasks.outline import TaskOutline
from seatrial.trial.place import image_policy


def check_images(tasks: Iterable[Task | TaskOutline], options: TrialOptions) -> None:
    """Raise JobError naming every task that wants a folder or the system of this machine for an image.

    What the run itself says goes before all that tasks say, so nothing of theirs is looked at then.
    """
    if options.image != "auto":
        return
    policy = image_policy(options)
    refused = [
        f"  task {task.id}: {place}: {reason}"
        for task in tasks
        for place, name in _named(task, options)
        if policy.instead_of(name) is None and (reason := why_refused(name))
    ]
    if refused:
        raise JobError("\n".join(["these tasks name images that no task may name:", *refused]))


def _named(task: Task | TaskOutline, options: TrialOptions) -> Iterator[tuple[str, str]]:
    """Every image that a task names, with the place that does."""
    config = task.config
    phases = [("verifier", config.verifier)]
    phases += [(f"steps.{step.spec.name}.verifier", step.spec.verifier) for step in task.steps]
    machines = [("environment", config.environment)]
    machines += [(f"{key}.environment", phase.environment) for key, phase in phases if phase.environment]
    for key, machine in machines:
        if machine.docker_image:
            yield f"task.toml: {key}.docker_image", machine.docker_image
    layouts = [task.layout, *(step.layout for step in task.steps)]
    files = {layout.verifier_dockerfile for layout in layouts}
    if not config.environment.docker_image or options.build == "always":
        files.add(task.layout.dockerfile)
    for file in sorted(filter(None, files)):
        yield from _in_dockerfile(task.root / file)


def _in_dockerfile(path: Path) -> list[tuple[str, str]]:
    with suppress(BuildError):  # the build says what is wrong with it, if it comes to one
        return images_named_in(path)
    return []
