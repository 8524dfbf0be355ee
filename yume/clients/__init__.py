"""The world outside: the platform, the archive of run records, and the model."""
