"""What agents do instead of the work."""
