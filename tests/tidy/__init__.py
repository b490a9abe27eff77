"""House rules that run as tests."""
