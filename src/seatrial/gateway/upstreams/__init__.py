"""Where model calls go: a provider, a script, an earlier trial, a function."""
