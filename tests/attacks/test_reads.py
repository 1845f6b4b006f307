"""Files of the agent that steer a verifier by being read: by classes, not by examples.

Names come from the image's own modules and from what tools read; places and ways to get there are drawn as well.
"""

from tests.attacks.arena import Arena
from tests.attacks.attack import FORGE_PY, Attack, judged_by, plant
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root


def test_spike(arena: Arena) -> None:
    ran = arena.play(
        Attack(
            "x",
            plant("/app/work/tool/pluggy.py", FORGE_PY),
            judged_by("D=/app/work", "cd $D/tool", "/opt/venv/bin/python3 -c 'import pluggy'"),
        )
    )
    print(ran.reward, ran.tags, ran.record.disputed_reward, ran.run)
    assert 0
