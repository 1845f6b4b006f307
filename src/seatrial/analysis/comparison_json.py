"""Comparisons as programs get them: every number, every difference between the sides, and all denominators."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare_jobs import ComparedPair, ComparisonSet
from seatrial.analysis.comparison import Comparison, Flip, TaskPair
from seatrial.analysis.contrasts import (
    Label,
    dimension_differences,
    group_differences,
    measured_differences,
)
from seatrial.analysis.figures import figures_of
from seatrial.analysis.gate import GateResult
from seatrial.analysis.tally import tally_json


def set_json(made: ComparisonSet, by: Sequence[Label] = (), gates: Sequence[GateResult] = ()) -> dict[str, Any]:
    """Comparisons made together; `gates` are what was judged of each, or nothing."""
    pairs = [_pair_json(pair, by, made.options.level) for pair in made.pairs]
    judged: list[dict[str, Any] | None] = [asdict(gate) for gate in gates]
    judged = judged or [None] * len(pairs)
    return {
        "level": made.options.level,
        "seed": made.options.seed,
        "forced": bool(made.forced),
        "corrected": "holm" if made.corrected else None,
        "left_out": list(made.left_out),
        "comparisons": [{**pair, "gate": gate} for pair, gate in zip(pairs, judged, strict=True)],
    }


def _pair_json(pair: ComparedPair, by: Sequence[Label], level: float) -> dict[str, Any]:
    comparison = pair.comparison
    return {
        "first": _arm_json(comparison.first, level, comparison.families),
        "second": _arm_json(comparison.second, level, comparison.families),
        "comparable": pair.comparability.comparable,
        "differences": [asdict(each) for each in pair.comparability.differences],
        "warnings": list(pair.comparability.warnings),
        "verdict": comparison.verdict,
        "paired": asdict(comparison.paired) if comparison.paired else None,
        "adjusted_p": comparison.adjusted_p,
        "mcnemar_p": comparison.mcnemar_p,
        "families": comparison.family_count,
        "gained": [_flip_json(flip) for flip in comparison.gained],
        "dropped": [_flip_json(flip) for flip in comparison.dropped],
        **_details(comparison, by),
        "tasks": [_task_json(task) for task in comparison.pairs],
    }


def _arm_json(arm: Arm, level: float, families: Mapping[str, str] | None) -> dict[str, Any]:
    """An arm alone, with intervals as sure as those of the comparison."""
    figures = figures_of(arm, clusters=families, level=level, ks=())
    summary = tally_json(replace(arm.tally, estimate=figures.mean, pass_estimate=figures.pass_rate))
    return {"label": arm.label, "agent": arm.agent, "folder": str(arm.job.path), "summary": summary}


def _details(comparison: Comparison, by: Sequence[Label]) -> dict[str, Any]:
    return {
        "dimensions": [asdict(part) for part in dimension_differences(comparison)],
        "measures": [
            {**asdict(each.amounts), "name": each.name, "unit": each.unit} for each in measured_differences(comparison)
        ],
        "groups": {label: [asdict(part) for part in group_differences(comparison, label)] for label in by},
    }


def _flip_json(flip: Flip) -> dict[str, Any]:
    return {"task_id": flip.task_id, "first": list(flip.first), "second": list(flip.second)}


def _task_json(pair: TaskPair) -> dict[str, Any]:
    return {"task_id": pair.task_id, "first": pair.first, "second": pair.second, "difference": pair.difference}
