"""Every metric and log name in one list, the metrics object, the request log. Called by shells, never by deciders."""
