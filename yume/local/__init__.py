"""The embedded default: servers from wheels, the practice platform, and the demo that runs on them."""
