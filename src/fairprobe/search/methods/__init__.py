"""Search methods, one paper a file. They never import each other."""
