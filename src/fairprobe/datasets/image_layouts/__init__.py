"""How well-known collections of faces are laid out in folders and files, one collection a file."""
