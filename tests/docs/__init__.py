"""The pages under docs/ say what the code says."""
