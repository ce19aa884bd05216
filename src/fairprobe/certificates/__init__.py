"""Certificates: for which share of all possible people a network is proved to treat everybody as
their counterparts, whatever a search finds.
"""
