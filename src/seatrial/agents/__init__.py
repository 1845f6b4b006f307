"""Who works in a sandbox: the agents that come with Seatrial, and the Protocol for all others."""
