"""The types everything speaks in: strict, frozen, free of I/O."""
