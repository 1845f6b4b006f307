"""Jobs and records on disk."""
