"""Automated camera planning, the case study of the paper (Section 6)."""
