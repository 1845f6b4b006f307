"""What builds stand on: images with triggers, this machine's own system, and what was built before."""

from dataclasses import replace

import pytest

from seatrial.errors import BuildError, UsageError
from seatrial.images.build import BuildSpec, build_image
from seatrial.sandbox.api import NO_NETWORK
from tests.images.building.support import BASE, REAL_BUILDS, Builder, build, look_at, with_builder, write_context

pytestmark = REAL_BUILDS


def test_triggers_of_the_base(store_root, context):
    built, _ = build(
        store_root, context, f"FROM {BASE}\nONBUILD COPY f /triggered\nONBUILD RUN echo hi >> /triggered\n"
    )
    assert "/triggered" not in look_at(built.image)

    async def scene(builder: Builder):
        builder.store.name_image(built.stored.digest, "with-triggers:1")
        return await builder.build(write_context(context, "FROM with-triggers:1\n", {"f": "x\n"}))

    result = with_builder(store_root, scene)
    assert look_at(result.image)["/triggered"][2] == "x\nhi\n"
    assert result.stored.document.config.on_build == ()


def test_on_the_hosts_own_system(store_root, context):
    copies = "COPY --chmod=755 f /usr/local/bin/tool\nCOPY f /root\n"
    dockerfile = f"FROM host\n{copies}RUN tool > /said && cat /root/f >> /said\n"
    built, _ = build(store_root, context, dockerfile, {"f": "#!/bin/sh\necho works\n"})
    assert (built.image.base, built.stored) == ("host", None)
    assert (built.image.layers[-1] / "said").read_text() == "works\n#!/bin/sh\necho works\n"
    with pytest.raises(UsageError, match="cannot be kept"):
        build(store_root, context, dockerfile, tags=("named:1",))


def test_a_layer_on_top_of_what_was_built(store_root, context):
    """How an agent is installed once, on whatever image a task has."""
    built, _ = build(store_root, context, "FROM host\nENV A=1\nWORKDIR /place\nRUN echo below > x\n")

    async def scene(builder: Builder):
        async def resolve(*_):
            return built.image

        means = replace(builder.means, resolve_base=resolve)
        spec = BuildSpec(context, text="FROM it\nRUN cat x > y; echo $A >> y\n", network=NO_NETWORK)
        return await build_image(spec, means)

    top = with_builder(store_root, scene).image
    assert (top.base, top.layers[:-1], top.config.workdir) == ("host", built.image.layers, "/place")
    assert (top.layers[-1] / "place/y").read_text() == "below\n1\n"


def test_nothing_private_of_the_host_is_copied(store_root, context):
    with pytest.raises(BuildError, match="Dockerfile:3: COPY: /etc/shadow is not in the image"):
        build(store_root, context, "FROM host AS one\nFROM scratch\nCOPY --from=one /etc/shadow /x\n")
    with pytest.raises(BuildError, match=r"/root/\* matches nothing"):
        build(store_root, context, "FROM host AS one\nFROM scratch\nCOPY --from=one /root/* /x/\n")
