"""What was recorded, and what a state is (Section 2)."""
