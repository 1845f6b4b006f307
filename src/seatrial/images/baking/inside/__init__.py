"""What runs in the sandbox where a tree is baked. It is sent there alone, so it imports nothing but Python's own."""
