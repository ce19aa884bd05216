"""The typed documents of all kinds of run."""
