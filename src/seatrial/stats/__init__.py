"""Honest statistics, pure."""
