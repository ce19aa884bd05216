"""Measurements, not tests: each prints ratios measured in one run, so that they carry over between
machines.
"""
