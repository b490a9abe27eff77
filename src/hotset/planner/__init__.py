"""A fleet in virtual time on the production policies: what would happen, and whether the rules hold then."""
