"""DistroFair's study: drawn street scenes, a detector trained on them, and the realism survey."""
