"""Seatrial runs AI agents on Harbor-format tasks, verifies what they did, and turns it into rewards to trust."""
