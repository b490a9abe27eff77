"""Processes of their own: control, gateways and workers, each wired from the parts that `hotset serve` has in one."""
