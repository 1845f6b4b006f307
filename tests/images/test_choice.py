"""Which image is used, decided without looking at anything."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import ImageError
from seatrial.images.choice import ImagePlan, ImagePolicy, ImageRequest, is_plain_python, plan_image

DOCKERFILE = Path("/tasks/one/environment/Dockerfile")
NAMED = ImageRequest("python:3.11-slim")
BUILT = ImageRequest(dockerfile=DOCKERFILE)
BOTH = ImageRequest("org/task:1", DOCKERFILE)
HOST = ImagePlan("host")
BUILD = ImagePlan("build", str(DOCKERFILE))


@pytest.mark.parametrize(
    ("request_", "policy", "plan"),
    [
        (ImageRequest(), ImagePolicy(), HOST),
        (NAMED, ImagePolicy(), ImagePlan("fetch", "python:3.11-slim")),
        (BUILT, ImagePolicy(), BUILD),
        (BOTH, ImagePolicy(), ImagePlan("fetch", "org/task:1")),
        (BOTH, ImagePolicy(build="always"), BUILD),
        (NAMED, ImagePolicy(build="always"), ImagePlan("fetch", "python:3.11-slim")),
        (BUILT, ImagePolicy("host"), HOST),
        (BOTH, ImagePolicy("host", build="always"), HOST),
        (NAMED, ImagePolicy("/roots/mine"), ImagePlan("directory", "/roots/mine")),
        (NAMED, ImagePolicy("debian:12"), ImagePlan("fetch", "debian:12")),
        (NAMED, ImagePolicy(mapped={"python:3.*": "host"}), HOST),
        (NAMED, ImagePolicy(mapped={"python:3.11-slim": "/roots/mine"}), ImagePlan("directory", "/roots/mine")),
        (NAMED, ImagePolicy(mapped={"python:2.*": "host"}), ImagePlan("fetch", "python:3.11-slim")),
        (BUILT, ImagePolicy(mapped={"python:*": "host"}), BUILD),
        (BOTH, ImagePolicy(mapped={"org/*": "debian:12"}, build="always"), ImagePlan("fetch", "debian:12")),
    ],
)
def test_what_the_run_says_goes_before_what_the_task_says(request_, policy, plan):
    assert plan_image(request_, policy) == plan


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("python", True),
        ("python:3.11-slim", True),
        ("docker.io/library/python:3.12", True),
        ("python/extra:1", False),
        ("org/python:3.11", False),
        ("python:3.11@sha256:0", False),
    ],
)
def test_only_the_plain_images_of_python_can_be_stood_in_for(name, plain):
    assert is_plain_python(name) is plain
    assert ImagePolicy().may_fall_back(name) is plain
    assert ImagePolicy(fallback="host").may_fall_back(name)
    assert not ImagePolicy(fallback="refuse").may_fall_back(name)


STRANGE = [
    "host",
    "/",
    "/etc",
    "/srv/../etc",
    "./x",
    "../x",
    ".",
    "~/x",
    "oci:/x",
    "oci:x",
    "dir:x",
    "docker-archive:/x",
]


@pytest.mark.parametrize("name", [*STRANGE, "", " /etc", "a/../../etc", "file:///etc", "x\0y", "host ", "${HOME}"])
def test_no_task_names_a_place_of_this_machine(name):
    if name:
        with pytest.raises(ImageError, match="--image-map"):
            plan_image(ImageRequest(name), ImagePolicy())
        with pytest.raises(ImageError):
            plan_image(ImageRequest(name, DOCKERFILE), ImagePolicy(mapped={"other": "/folder"}))
    assert plan_image(ImageRequest(name), ImagePolicy("host")) == HOST


@pytest.mark.parametrize("name", STRANGE)
def test_the_user_may_have_a_place_used_for_whatever_name(name):
    mapped = ImagePolicy(mapped={name: "/roots/mine"})
    assert plan_image(ImageRequest(name), mapped) == ImagePlan("directory", "/roots/mine")


def test_a_program_of_the_users_own_may_name_folders():
    assert plan_image(ImageRequest("/roots/mine", asked_by="user"), ImagePolicy()).kind == "directory"
    assert plan_image(ImageRequest("host", asked_by="user"), ImagePolicy()) == HOST


@given(st.text(min_size=1, max_size=30) | st.from_regex(r"[a-z./:@~-]{1,20}", fullmatch=True))
def test_whatever_a_task_names_is_fetched_or_refused(name):
    try:
        plan = plan_image(ImageRequest(name), ImagePolicy())
    except ImageError:
        return
    assert plan == ImagePlan("fetch", name)
    assert name[0].isalnum() or name[0] == "["
    assert ".." not in name.split("/")
