"""Virtual time, seeded randomness, drifting clocks and a network that fails; no policy, no wall clock."""
