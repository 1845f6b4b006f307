"""Which images have to be had by name for what a task asks for: its own, or those that its Dockerfile builds on."""

from collections.abc import Iterator

from seatrial.errors import ImageError, UsageError
from seatrial.images.building.named import images_named_in
from seatrial.images.choice import ImagePlan, ImagePolicy, ImageRequest, plan_asked, plan_image, plan_named


def references_for(request: ImageRequest, policy: ImagePolicy) -> list[str]:
    """The references that are fetched for a request, after what the run has instead of some.

    None for what cannot be resolved: to say why is up to the resolver.
    """
    try:
        return [plan.name for plan in _plans(request, policy) if plan.kind == "fetch"]
    except (ImageError, UsageError):
        return []


def _plans(request: ImageRequest, policy: ImagePolicy) -> Iterator[ImagePlan]:
    plan = plan_image(request, policy)
    if plan.kind != "build" or request.dockerfile is None:
        yield plan
        return
    for _, name in images_named_in(request.dockerfile):
        instead = policy.instead_of(name)
        yield plan_named(instead) if instead else plan_asked(name)
