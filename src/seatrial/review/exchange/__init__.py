"""Reviews as files that other programs write and read."""
