"""Audits: from data and a model to evidence, and the run folder that keeps it."""

from fairprobe.audits.models import NETWORKS, train, train_amounts
from fairprobe.audits.repaired import repair, repair_run
from fairprobe.audits.scores import ScoreAudit, audit_scores
from fairprobe.audits.stages import check_settings
from fairprobe.audits.table import Audit, audit, save
from fairprobe.runs.stages import OnStage, Stages
from fairprobe.runs.store import AuditResult, RunFolder

__all__ = [
    "NETWORKS",
    "Audit",
    "AuditResult",
    "OnStage",
    "RunFolder",
    "ScoreAudit",
    "Stages",
    "audit",
    "audit_scores",
    "check_settings",
    "repair",
    "repair_run",
    "save",
    "train",
    "train_amounts",
]
