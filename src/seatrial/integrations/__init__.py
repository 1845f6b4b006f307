"""Results that other programs stored, as jobs of ours: verifiers' `results.jsonl` and Harbor's job folders."""
