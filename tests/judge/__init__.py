"""Judges: rubrics, evidence, questions, assessments."""
