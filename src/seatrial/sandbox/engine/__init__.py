"""Sandboxes from a container engine: Docker, or anything else that speaks its API, such as Podman."""
