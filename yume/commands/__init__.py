"""What each command does, a room a subject; the exit code is 0 for done and 1 for refused."""
