"""Example tasks, and the demo that scores one of them."""
