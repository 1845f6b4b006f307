"""Which references a request comes down to: its own, those of its Dockerfile, or what the run has instead."""

from pathlib import Path

import pytest

from seatrial.images.choice import ImagePolicy, ImageRequest
from seatrial.images.needed import references_for

DOCKERFILE = """\
ARG VERSION=3.11
FROM python:${VERSION} AS tools
RUN pip install tool
FROM debian:12
COPY --from=tools /usr/local /usr/local
COPY --from=ghcr.io/team/data:1 /data /data
"""


@pytest.fixture
def built(tmp_path: Path) -> ImageRequest:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    return ImageRequest(dockerfile=tmp_path / "Dockerfile")


def test_an_image_that_a_task_names():
    assert references_for(ImageRequest("python:3.11"), ImagePolicy()) == ["python:3.11"]
    assert references_for(ImageRequest(), ImagePolicy()) == []


def test_all_that_a_dockerfile_names_but_its_own_stages(built):
    assert references_for(built, ImagePolicy()) == ["python:3.11", "debian:12", "ghcr.io/team/data:1"]


def test_what_the_run_has_instead(built):
    mapped = ImagePolicy(mapped={"python:*": "mirror/python:3", "debian:*": "host", "ghcr.io/*": "/some/root"})
    assert references_for(built, mapped) == ["mirror/python:3"]
    assert references_for(ImageRequest("python:3.11"), mapped) == ["mirror/python:3"]
    assert references_for(built, ImagePolicy(image="app:1")) == ["app:1"]
    assert references_for(built, ImagePolicy(image="/some/root")) == []
    assert references_for(built, ImagePolicy(image="host")) == []


def test_what_cannot_be_resolved_is_not_ours_to_refuse(tmp_path):
    assert references_for(ImageRequest("/etc"), ImagePolicy()) == []
    assert references_for(ImageRequest(dockerfile=tmp_path / "none"), ImagePolicy()) == []
