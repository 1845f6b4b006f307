"""What agents, tasks, providers and strangers' jobs wrote, read without believing it: files, JSON, YAML."""
