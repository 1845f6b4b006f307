"""What reviews amount to, for programs: the same values as on the screen, with the names of the types."""

from dataclasses import asdict
from typing import Any

from seatrial.review.agreement import AgreementReport, ReviewFigures
from seatrial.review.readiness import Readiness


def agreement_json(report: AgreementReport, ready: Readiness) -> dict[str, Any]:
    """A report and whether it is good enough to build on, as one JSON object."""
    return {
        "level": report.level,
        "seed": report.seed,
        "overall": _figures(report.overall),
        "jobs": [_figures(each) for each in report.jobs],
        "agents": {name: asdict(each) for name, each in report.agents.items()},
        "tasks": [asdict(each) for each in report.tasks],
        "readiness": {
            "state": ready.state,
            "reasons": list(ready.reasons),
            "gates": [asdict(gate) for gate in ready.gates],
        },
    }


def _figures(figures: ReviewFigures) -> dict[str, Any]:
    return {**asdict(figures), "annotators": figures.annotators}
