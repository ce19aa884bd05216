"""fairprobe."""
