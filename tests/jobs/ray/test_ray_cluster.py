"""What Ray says, in a few words; the rest of ray_cluster.py is tested by test_engine.py, on a real cluster."""

import pytest

pytest.importorskip("ray", reason="no Ray: install ray")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "The actor died unexpectedly before finishing this task.\n\tpid: 1\nThe actor is dead because its worker "
            "process has died. Worker exit type: SYSTEM_ERROR",
            "our process there has died",
        ),
        (
            "The actor died unexpectedly before finishing this task.\nThe actor died because its node has died. Node Id",
            "the node has died",
        ),
        (
            "The actor died because of an error raised in its creation task, ray::RunnerActor.__init__() (pid=7)\n"
            '  File "x.py"\nseatrial.errors.HostUnsupportedError: /a b: a space\n',
            "our process there failed: seatrial.errors.HostUnsupportedError: /a b: a space",
        ),
        ("The actor is temporarily unavailable.\nmore", "The actor is temporarily unavailable"),
    ],
)
def test_what_ray_says_is_put_in_a_few_words(text, said):
    from seatrial.jobs.ray.ray_cluster import shortly  # noqa: PLC0415 - not without Ray

    assert shortly(text) == said
