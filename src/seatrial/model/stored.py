"""The types that are written to disk or printed as JSON, and their JSON Schemas."""

import json
from collections.abc import Mapping

from pydantic import BaseModel

from seatrial.model.assessment import Assessment
from seatrial.model.check import CheckReport, TaskCheck
from seatrial.model.evaluation import Annotation, ConfidenceMetadata, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.job import JobFile, JobSpec
from seatrial.model.loaded_task import BrokenTask, Problem, SkippedFolder, Task
from seatrial.model.output import OutputSpec, VerifierSpec
from seatrial.model.record import FileChanges, TrialRecord
from seatrial.model.review import ReviewEntry

STORED_TYPES: Mapping[str, type[BaseModel]] = {
    kind.__name__: kind
    for kind in (
        Annotation,
        Assessment,
        BrokenTask,
        CheckReport,
        ConfidenceMetadata,
        ErrorTag,
        EvaluationResult,
        FileChanges,
        JobFile,
        JobSpec,
        OutputSpec,
        Problem,
        ReviewEntry,
        SkippedFolder,
        Task,
        TaskCheck,
        TrialRecord,
        ValidityCheck,
        VerifierSpec,
    )
}


def json_schema(name: str) -> str:
    """The JSON Schema of a stored type as text, the same text every time. Raises KeyError for any other name."""
    schema = STORED_TYPES[name].model_json_schema(mode="serialization")
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
