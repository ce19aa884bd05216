"""Putting it all together: an audit, its plain data, its folder."""

from fairprobe.run.evidence import NETWORKS, Audit, audit, train, trained_before
from fairprobe.run.folder import RunFolder, read_document, save

__all__ = ["NETWORKS", "Audit", "RunFolder", "audit", "read_document", "save", "train", "trained_before"]
