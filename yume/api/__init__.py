"""HTTP: whether a process is alive and ready."""
