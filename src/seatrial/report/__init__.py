"""What a job amounts to, for people and for programs."""
