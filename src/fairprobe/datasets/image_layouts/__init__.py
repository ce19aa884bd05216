"""How well-known collections of faces lie in folders and files, one collection a file."""
