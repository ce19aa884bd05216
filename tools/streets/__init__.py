"""Draw the streets of `fairprobe scenes demo`, and train the recognizer that it tests."""
