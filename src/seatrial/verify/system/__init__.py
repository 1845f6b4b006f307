"""The verifier brings its own system: which of the agent's changes to it a verifier gets to see."""
