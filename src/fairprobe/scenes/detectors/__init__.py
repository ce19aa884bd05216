"""Recognisers under test, one file a kind."""
