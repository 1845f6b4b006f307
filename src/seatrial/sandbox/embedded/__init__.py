"""The embedded sandbox: Linux namespaces, overlayfs and cgroups, driven by one small spawner process."""
