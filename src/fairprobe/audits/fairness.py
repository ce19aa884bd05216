"""The fairness metrics of the people held out, as plain data."""

from __future__ import annotations

from typing import Any

from fairprobe.audits.plain import plain_estimate, plain_ifr
from fairprobe.metrics import Divided, Fairness


def fairness_document(measured: Fairness, classes: tuple[str, ...]) -> dict[str, Any]:
    """All of it as plain data."""
    one_by_one = measured.individual
    return {
        "rows": measured.rows,
        "positive": measured.positive,
        "positive_assumed": measured.is_assumed,
        "individual": {
            "tau": one_by_one.tau,
            "base": one_by_one.base,
            "over": one_by_one.over,
            "left_out": one_by_one.left_out,
            "b": plain_ifr(one_by_one.b),
            "p": plain_ifr(one_by_one.p),
        },
        "group": (
            None
            if measured.selected is None
            else {
                "selected": measured.selected.to_dict(),
                "tables": [_table(divided, classes) for divided in measured.groups],
            }
        ),
        "quality": {
            "accuracy": measured.accuracy.to_dict(),
            "f1": plain_estimate(measured.f1),
            "mcc": plain_estimate(measured.mcc),
        },
    }


def _table(divided: Divided, classes: tuple[str, ...]) -> dict[str, Any]:
    table = divided.table
    return {
        "attribute": table.attribute,
        "rows": [
            {
                "name": row.name,
                **row.rate.to_dict(),
                "impact_ratio": plain_estimate(row.impact_ratio),
                "is_small": row.is_small,
                "is_empty": row.is_empty,
            }
            for row in table.rows
        ],
        "unknown": table.unknown,
        "smallest": table.smallest,
        "dp": plain_estimate(divided.dp),
        "eo": [
            {"given": name, **plain_estimate(each)}
            for name, each in zip(classes, divided.eo, strict=True)
        ],
    }
