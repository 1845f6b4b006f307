"""The trees that agents run from: baked once from packages, kept in the store, laid over any image."""
