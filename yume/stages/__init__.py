"""One module a step of the dream; each is one `run` that loads, thinks and saves."""
