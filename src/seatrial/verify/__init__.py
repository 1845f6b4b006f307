"""Running verifiers and collecting what they leave behind."""
