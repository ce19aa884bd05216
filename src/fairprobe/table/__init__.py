"""Audits of tables."""
