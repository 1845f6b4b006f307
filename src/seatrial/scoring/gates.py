"""Gates: the few findings that cost the reward. Each says what the verifier had given before it was taken away.

They close only on what a task's author declared: the path of the output, or that its shape decides.
"""

from collections.abc import Callable

from seatrial.model.output import OutputSpec
from seatrial.scoring.findings import Finding
from seatrial.scoring.output import OutputCheck

Gate = Callable[[OutputSpec, OutputCheck], str | None]


def _output_must_parse(_: OutputSpec, check: OutputCheck) -> str | None:
    return None if check.parseable else "the output cannot be used"


def _shape_must_match(spec: OutputSpec, check: OutputCheck) -> str | None:
    # The author asks for this gate by name, so a path that the instruction asks for is sure enough.
    if spec.shape.gate == "report" or check.schema_valid:
        return None
    return "the output has the wrong shape, and this task gives zero for that"


GATES: tuple[Gate, ...] = (_output_must_parse, _shape_must_match)


def apply_gates(reward: float, spec: OutputSpec, check: OutputCheck) -> tuple[float, list[Finding]]:
    """The reward after every gate, and a finding that keeps the verifier's number if one closed on it."""
    reason = next(filter(None, (gate(spec, check) for gate in GATES)), None)
    if reason is None or reward == 0.0:
        return reward, []
    return 0.0, [Finding("reward_gated", f"the verifier gave {reward}, but {reason}; 0.0 counts")]
