"""Alias to route: who may name what. Pure look-ups in a frozen snapshot; no mutation, no loading."""
