"""Agents that a layer brings, in real sandboxes: part of the image, named in the record, and no way to forge."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from seatrial.images.baking.layout import programs_of
from seatrial.images.baking.tidy import lock_layer
from seatrial.images.resolver import ImageResolver
from seatrial.images.sources import StoreSource
from seatrial.images.store import Store, open_store
from seatrial.model.events import unobserved
from seatrial.model.job import AgentLayer, AgentOptions, LayerRecipe
from tests.images.baking.support import put_tree
from tests.trial.support import ANSWER, trial_spec, write_task

RECIPE = LayerRecipe(name="pi", version="1.0", programs={"pi": "pi"})
PROGRAM = f"{programs_of(RECIPE)}/pi"
WORK = f"#!/bin/sh\necho right > {ANSWER}\n".encode()
LOOKING_TEST = f"""#!/bin/sh
{{ echo "$PATH"; command -v grep; }} > /logs/verifier/seen.txt
if grep -qx right {ANSWER}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
SPOILING = f"""
printf '#!/bin/sh\\nexit 0\\n' > {programs_of(RECIPE)}/grep
chmod +x {programs_of(RECIPE)}/grep
echo spoiled > {PROGRAM}
"""


@pytest.fixture(scope="module")
def shelf(desk, tmp_path_factory) -> Iterator[tuple[Store, ImageResolver]]:
    """A store with the tree of an agent, and images from there."""
    stack = AsyncExitStack()

    async def open_images() -> tuple[Store, ImageResolver]:
        store = await stack.enter_async_context(open_store(tmp_path_factory.mktemp("shelf")))
        await put_tree(store, RECIPE, WORK)
        return store, ImageResolver(StoreSource(store, desk.backend), unobserved)

    yield desk.wait(open_images())
    desk.wait(stack.aclose())


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_task(tmp_path_factory.mktemp("layered") / "task", files={"tests/test.sh": LOOKING_TEST})


def run(desk, shelf, task, agent: AgentOptions):
    return desk.run_spec(replace(trial_spec(task), agent=agent), images=shelf[1])


def test_a_baked_tree_is_part_of_the_image_and_an_honest_run_leaves_no_tag(desk, shelf, task):
    ran = run(desk, shelf, task, AgentOptions(name="command", command=PROGRAM, recipe=RECIPE))
    assert ran.reward == 1.0
    assert not ran.tags
    assert not [path for path in (*ran.changes.added, *ran.changes.modified) if path.startswith("/opt")]
    assert shelf[0].layer(f"sha256:{ran.record.agent.layer}") is not None
    assert "/opt/seatrial" not in ran.text("verifier/files/seen.txt")


def test_an_agent_that_changes_its_tree_has_changed_the_image_and_forges_nothing(desk, shelf, task):
    ran = run(desk, shelf, task, AgentOptions(name="command", command=SPOILING, recipe=RECIPE))
    assert ran.reward == 0.0
    assert "/opt/seatrial" not in ran.text("verifier/files/seen.txt")
    assert PROGRAM in ran.changes.modified
    assert f"{programs_of(RECIPE)}/grep" in ran.changes.added
    again = run(desk, shelf, task, AgentOptions(name="command", command=PROGRAM, recipe=RECIPE))
    assert again.reward == 1.0


def test_a_layer_of_the_user_s_own_goes_before_the_recipe_and_a_command_runs_on_top(desk, shelf, task, tmp_path):
    (tmp_path / "opt/mine").mkdir(parents=True)
    (tmp_path / "opt/mine/work").write_bytes(WORK)
    (tmp_path / "opt/mine/work").chmod(0o755)
    layer = lock_layer(AgentLayer(source=str(tmp_path)))
    command = f"test ! -e {PROGRAM} && /opt/mine/again"
    setup = "cp /opt/mine/work /opt/mine/again"
    ran = run(desk, shelf, task, AgentOptions(name="command", command=command, setup=setup, recipe=RECIPE, layer=layer))
    assert ran.reward == 1.0
    assert ran.record.agent.layer == layer.digest
    assert not ran.tags
