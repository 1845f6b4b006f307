"""What tells the folder of a job from any other. Alone, because to look for jobs takes nothing else of a store."""

JOB = "job.json"
