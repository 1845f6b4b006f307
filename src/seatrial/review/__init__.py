"""What people say of trials: who reviews what, what stands, and how far they agree."""
