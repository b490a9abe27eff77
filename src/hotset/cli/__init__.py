"""Commands, the only reader of configuration, and all wiring. No logic of its own."""
