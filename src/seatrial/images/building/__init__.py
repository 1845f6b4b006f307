"""Dockerfiles: read, and carried out step by step on sandboxes of our own."""
