"""Sandboxes: isolated, machine-like places in which agents and verifiers run."""
