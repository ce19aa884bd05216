"""The papers' experiments: grids of independent jobs, run on this machine or on a cluster, that can
be interrupted and continued.
"""
