"""Putting it all together: an audit, its plain data, its folder."""

from fairprobe.run.evidence import Audit, audit
from fairprobe.run.folder import RunFolder, read_document, save
from fairprobe.run.models import NETWORKS, train, trained_before
from fairprobe.run.repairing import repair_run

__all__ = ["NETWORKS", "Audit", "RunFolder", "audit", "read_document", "repair_run", "save", "train", "trained_before"]
