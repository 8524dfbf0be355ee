"""Run records that other tools wrote, read from files: one small module a format, all of one shape."""
