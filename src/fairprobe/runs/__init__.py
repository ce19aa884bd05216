"""Runs: their folders, their kinds, and the stages of the audits that fill them."""
