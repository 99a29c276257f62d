"""What acts: policies of Eq. 2 and their mixtures, how they roll out, and how they are kept."""
