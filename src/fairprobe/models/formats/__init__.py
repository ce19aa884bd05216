"""Kinds of model that users bring, one file for each: what is read becomes an `Opened`. Nothing
in a file is ever unpickled or run.
"""
