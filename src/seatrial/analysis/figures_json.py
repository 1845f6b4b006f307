"""Figures, groups and heat maps as programs get them: every number with its interval and its denominators."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from seatrial.analysis.arms import Arm
from seatrial.analysis.figures import Figures, corrected_of, tally_json
from seatrial.analysis.groups import Group, GroupKey, HeatMap
from seatrial.stats.corrected import CorrectedMean
from seatrial.stats.estimates import Estimate


def figures_json(figures: Figures) -> dict[str, Any]:
    """What trials amount to; pass@k under each k as text, since JSON has no other keys."""
    return {
        "tally": tally_json(figures),
        "mean": estimate_json(figures.estimate),
        "pass_rate": estimate_json(figures.pass_estimate),
        "pass_at": {str(k): estimate_json(each) for k, each in figures.pass_at.items()},
        "pass_all": {str(k): estimate_json(each) for k, each in figures.pass_all.items()},
        "stability": asdict(figures.stability),
        "times": asdict(figures.times) if figures.times else None,
        "solved": figures.solved,
        "cost_per_solved": figures.cost_per_solved,
    }


def estimate_json(estimate: Estimate | None) -> dict[str, Any] | None:
    """A mean with its interval, None where there is none."""
    return asdict(estimate) if estimate else None


def corrected_json(corrected: CorrectedMean | None) -> dict[str, Any] | None:
    """The lowest and the highest mean that trials can have, None where there is no trial."""
    return asdict(corrected) if corrected else None


def arms_json(arms: Sequence[Arm], figures: Mapping[str, Figures]) -> list[dict[str, Any]]:
    """Arms in the order they are shown in."""
    return [
        {
            "label": arm.label,
            "folder": str(arm.job.path),
            "job": arm.job.name,
            "agent": arm.agent,
            "pass_threshold": _threshold(arm),
            "figures": figures_json(figures[arm.label]),
            "corrected": corrected_json(corrected_of(arm.selected)),
        }
        for arm in arms
    ]


def _threshold(arm: Arm) -> float | None:
    """The reward from which on its trials have passed, None where some were judged again with another than others."""
    thresholds = {arm.job.threshold_of(trial) for trial in arm.trials} or {arm.job.threshold}
    return thresholds.pop() if len(thresholds) == 1 else None


def groups_json(key: GroupKey, groups: Sequence[Group]) -> dict[str, Any]:
    """By what trials are grouped, and the groups in the order they are shown in."""
    rows = [
        {"name": each.name, "arm": each.arm, "tasks": each.tasks, "figures": figures_json(each.figures)}
        for each in groups
    ]
    return {"by": key, "groups": rows}


def heat_json(heat: HeatMap) -> dict[str, Any]:
    """The matrix: a row of cells for each task, with a cell for each arm."""
    cells = [[asdict(cell) for cell in row] for row in heat.cells]
    return {"tasks": list(heat.tasks), "arms": [arm.label for arm in heat.arms], "cells": cells}
