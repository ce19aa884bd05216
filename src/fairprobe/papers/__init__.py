"""Experiments: a grid of independent jobs, done on this machine or on a cluster, interrupted and
continued at will.
"""
