"""The commands, one module a subject. Each calls the admin API and prints."""
