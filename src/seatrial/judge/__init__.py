"""Judges: language models that answer the questions of a rubric about one trial. Nothing here knows a provider."""
