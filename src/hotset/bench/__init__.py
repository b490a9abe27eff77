"""Comparisons that users can run: load generators, a canned upstream, peers, tables of one run."""
