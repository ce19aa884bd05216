"""Putting it all together: an audit, its plain data, its folder."""

from fairprobe.audits.evidence import Audit, audit, check_settings
from fairprobe.audits.folder import RunFolder, read_document, save
from fairprobe.audits.models import NETWORKS, train, trained_before
from fairprobe.audits.origin import model_of_run, reopen
from fairprobe.audits.repaired import repair
from fairprobe.audits.repairing import repair_run

__all__ = [
    "NETWORKS",
    "Audit",
    "RunFolder",
    "audit",
    "check_settings",
    "model_of_run",
    "read_document",
    "reopen",
    "repair",
    "repair_run",
    "save",
    "train",
    "trained_before",
]
