"""One trial: the lifecycle from a task to a record."""
