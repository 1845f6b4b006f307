"""What agents and models said to each other, from our own record: threads, trajectories, and files that others read."""
