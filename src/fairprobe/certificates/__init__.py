"""Certificates: for which share of all possible people a network is proved to treat everybody as
their counterparts, whatever a search finds.
"""

from fairprobe.certificates.branch import Limit
from fairprobe.certificates.chain import Chain, UnsupportedError
from fairprobe.certificates.fold import chain_of
from fairprobe.certificates.people import proved_radius
from fairprobe.certificates.proof import Proof, prove, save

__all__ = [
    "Chain",
    "Limit",
    "Proof",
    "UnsupportedError",
    "chain_of",
    "prove",
    "proved_radius",
    "save",
]
