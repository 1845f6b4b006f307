"""What Ray says, in a few words; the rest of ray_cluster.py is tested by test_engine.py, on a real cluster."""

import pytest

pytest.importorskip("ray", reason="no Ray: install ray")


@pytest.mark.whole
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "It died.\n\tpid: 1\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
            "our process there has died",
        ),
        (
            "It died before it finished.\nThe actor died because its node has died. Node Id: 7",
            "the node has died",
        ),
        (
            "The actor died because of an error raised in its creation task,\n  File x\nHostUnsupportedError: no\n",
            "our process there failed: HostUnsupportedError: no",
        ),
        ("The actor is temporarily unavailable.\nmore", "The actor is temporarily unavailable"),
    ],
)
def test_what_ray_says_is_put_in_a_few_words(text, said):
    from seatrial.jobs.ray.ray_cluster import shortly  # noqa: PLC0415 - not without Ray

    assert shortly(text) == said
