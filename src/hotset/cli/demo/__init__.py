"""The demo: a real base model from a package, real adapters, three tenants, and the story that shows them."""
