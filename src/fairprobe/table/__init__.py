"""Audits of tables: of classes and of amounts."""
