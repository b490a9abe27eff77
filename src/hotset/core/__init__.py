"""Words every room shares: ids, references, routes, the clock, errors and messages between processes."""
