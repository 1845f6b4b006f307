"""Environments: rollouts of a model, or of an agent with one, as authors and trainers of environments write them."""
