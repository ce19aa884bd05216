"""Audits of images, repairs and certificates."""
