"""Jobs: requests that are answered later. The door where one is accepted, the book that keeps them, their runner."""
