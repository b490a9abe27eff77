"""An engine without a model: the times and the habits of real ones, for load tests and for clients of real engines."""
