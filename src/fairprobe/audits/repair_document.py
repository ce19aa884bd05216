"""A repair's proof as plain data: what was done, the same measurements before, after and for each
control, and the trade-off.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

from fairprobe.audits.plain import plain_estimate, plain_ifr, plain_number
from fairprobe.repairs.base import Repair
from fairprobe.repairs.verdict import Measured, Point, Proof


def repair_document(proof: Proof) -> dict[str, Any]:
    """Everything that the report and the terminal say of a repair."""
    repair = proof.repair
    return {
        "name": repair.name,
        "start": repair.start,
        "settings": _settings(repair),
        "dial": {"name": repair.dial, "means": repair.dial_means, "value": repair.dial_at},
        "accepted": proof.accepted,
        "forced": proof.forced,
        "reasons": list(proof.reasons),
        "limits": {"max_accuracy_drop": proof.max_accuracy_drop, "max_harm": proof.max_harm},
        "before": _measured(proof.before),
        "after": _measured(proof.after),
        "controls": {name: _measured(control) for name, control in proof.controls.items()},
        "change": _change(proof.before, proof.after),
        "curve": [_point(point) for point in proof.curve],
    }


def _settings(repair: Repair) -> dict[str, Any]:
    """What the repair was told; its start and its dial have their own place."""
    return {
        name: value for name, value in _told(repair).items() if name not in ("start", repair.dial)
    }


def _told(settings: Any) -> dict[str, Any]:
    """The fields of settings, those of settings within them (a training, a budget) included."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: _told(value) if is_dataclass(value) else value
        for name, value in values.items()
        if value is None
        or is_dataclass(value)
        or isinstance(value, str | int)
        or (isinstance(value, float) and isfinite(value))
    }


def _measured(measured: Measured) -> dict[str, Any]:
    return {
        "accuracy": measured.accuracy.to_dict(),
        "f1": plain_estimate(measured.f1),
        "mcc": plain_estimate(measured.mcc),
        "selected": measured.selected.to_dict(),
        "ifr_b": plain_ifr(measured.ifr_b),
        "ifr_p": plain_ifr(measured.ifr_p),
        "dp": plain_estimate(measured.dp),
        "eo": [plain_estimate(each) for each in measured.eo],
        "dm_rs": measured.dm_rs.to_dict(),
        "idis": measured.idis,
        "tried": measured.tried,
        "auc": plain_number(measured.auc),
        "auc_scale_free": plain_number(measured.auc_scale_free),
        "others": [
            {"name": other.name, "dm_rs": other.dm_rs.to_dict(), "ifr_b": plain_ifr(other.ifr_b)}
            for other in measured.others
        ],
        "is_constant": measured.is_constant,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "setting": point.setting,
        "accuracy": point.accuracy.to_dict(),
        "ifr_b": plain_ifr(point.ifr_b),
        "ifr_p": plain_ifr(point.ifr_p),
        "dm_rs": point.dm_rs.to_dict(),
        "dp": plain_estimate(point.dp),
        "is_constant": point.is_constant,
        "is_best": point.is_best,
        "is_chosen": point.is_chosen,
    }


def _change(before: Measured, after: Measured) -> dict[str, float | None]:
    """What the banner says: by how much the accuracy changed, and by which share of what it was
    DM-RS did (nothing, where it was 0).
    """
    was, now = before.dm_rs.estimate, after.dm_rs.estimate
    return {
        "accuracy": after.accuracy.estimate - before.accuracy.estimate,
        "dm_rs": (now - was) / was if was else None,
    }
