"""Many trials: planning, carrying out, resuming."""
