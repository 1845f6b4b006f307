"""Images: where they come from, how they are unpacked, and where their layers are kept."""
