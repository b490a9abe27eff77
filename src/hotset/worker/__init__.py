"""The agent: what stands beside one engine and alone talks to it. Carries out residency's effects; decides nothing."""
