"""The contract as an ordinary user. Its name keeps pytest from collecting it: `test_embedded.py` runs it as one."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from seatrial.sandbox.api import HOST_IMAGE, ExecSpec, Image, SandboxBackend
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.sandbox.embedded import test_exhaustion, test_frozen, test_frozen_limits, test_phases, test_planted
from tests.sandbox.embedded.attacks import ALL, PRELUDE
from tests.sandbox.embedded.support import needs_python, open_box, python
from tests.sandbox.embedded.test_frozen import image
from tests.sandbox.kept_backend import KeptBackendContract

__all__ = ["image"]  # pytest finds fixtures by their names

# Those that depend most on who the host's user is.
SCENES: list[Callable[..., None]] = [
    test_exhaustion.test_stopping_the_next_command_does_not_stop_its_clock,
    test_exhaustion.test_stopping_whoever_comes_to_kill_does_not_help,
    test_phases.test_a_spy_left_behind_finds_nothing_of_the_verifier,
    test_phases.test_a_terminal_of_the_verifier_is_its_own,
]
SCENES_WITH_FILES: list[Callable[..., None]] = [
    partial(test_planted.test_a_newcomer_that_is_stopped_on_its_way_in_opens_no_door, phase="agent"),
    partial(test_planted.test_a_newcomer_that_is_stopped_on_its_way_in_opens_no_door, phase="verifier"),
    test_planted.test_a_tree_too_deep_to_walk_by_recursion,
    test_planted.test_put_and_get_follow_links_no_further_than_the_sandbox,
]
FROZEN_SCENES: list[Callable[..., None]] = [
    partial(test_frozen.test_what_the_agent_did_before_is_seen_and_what_it_does_after_is_not, disk="shared disk"),
    partial(test_frozen.test_what_the_agent_did_before_is_seen_and_what_it_does_after_is_not, disk="own memory"),
    test_frozen.test_everything_else_is_shared_while_the_verifier_runs,
    test_frozen.test_what_the_verifier_writes_to_the_system_is_its_own,
    test_frozen.test_what_the_agent_removed_is_gone_and_stays_so,
    test_frozen.test_what_setting_up_wrote_is_nobody_s_change,
    partial(test_frozen.test_the_task_s_own_folder_is_shared_wherever_it_is, workdir="/usr/src/app"),
    partial(test_frozen_limits.test_a_link_in_place_of_a_folder_cannot_be_frozen, folder="/var/lib"),
]


class TestAsUser(KeptBackendContract):
    def make_backend(self) -> SandboxBackend:
        return EmbeddedBackend()

    def test_there_are_as_many_users_inside_as_expected(self) -> None:
        async def look() -> tuple[str, bool]:
            async with EmbeddedBackend() as backend:
                capabilities = await backend.probe()
                return capabilities.mode, capabilities.many_users

        assert asyncio.run(look()) == ("user", os.environ["USERS_EXPECTED"] == "many")


@needs_python
def test_attacks_are_refused() -> None:
    disk = f"DISK = {Path('/').stat().st_dev}\n"
    with open_box("user") as box:
        outcomes = {name: box.ask(python(PRELUDE, disk + attack.code)) for name, attack in ALL.items()}
    assert {name: outcome for name, outcome in outcomes.items() if outcome not in ALL[name].refused} == {}


@needs_python
@pytest.mark.parametrize("scene", SCENES)
def test_hostile_scenes_end_as_they_do_for_root(scene: Callable[..., None]) -> None:
    scene(mode="user")


@needs_python
@pytest.mark.parametrize("scene", SCENES_WITH_FILES)
def test_hostile_scenes_with_files_end_as_they_do_for_root(scene: Callable[..., None], tmp_path: Path) -> None:
    scene(mode="user", tmp_path=tmp_path)


@needs_python
@pytest.mark.parametrize("scene", FROZEN_SCENES)
@pytest.mark.parametrize("image", ["layers"], indirect=True)
def test_a_system_is_frozen_as_it_is_for_root(scene: Callable[..., None], image: Image) -> None:
    scene(mode="user", image=image)


@needs_python
def test_a_host_system_is_frozen_as_well() -> None:
    scene = test_frozen.test_what_the_agent_did_before_is_seen_and_what_it_does_after_is_not
    scene(mode="user", image=HOST_IMAGE, disk="shared disk")


def test_programs_and_settings_of_this_machine_can_be_added_and_replaced() -> None:
    with open_box("user") as box:
        script = (
            "for f in /usr/x /usr/local/bin/x /opt/x /etc/x; do echo new > $f || exit 1; done; rm /usr/bin/env && "
            "cp /bin/true /usr/bin/env && echo '1.2.3.4 there' >> /etc/hosts && env && cat /usr/local/bin/x"
        )
        assert box.ask(ExecSpec(("/bin/sh", "-c", script))) == "new"


@needs_python
def test_files_in_the_root_of_a_host_system_are_frozen() -> None:
    test_frozen.test_files_in_the_root_itself_are_those_that_were_looked_at(mode="user", image=HOST_IMAGE)
