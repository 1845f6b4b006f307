"""Reading a task's own texts and tests, without running anything."""
