"""The engine for many machines: a coordinator that keeps queue and store, and one runner on every node of a cluster."""
