"""The result as SARIF 2.1.0, which code hosts show beside the code: a result for each failed
ruling, at its line of the policy.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairprobe.catalogue import MEASURES
from fairprobe.gate.ruling import GateResult, Ruling
from fairprobe.gate.words import limit

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(result: GateResult) -> str:
    """One run of one tool; its rules are the measures that were limited, with words for those who
    meet them first.
    """
    names = list(dict.fromkeys(ruling.name for ruling in result.rulings))
    first = {ruling.name: ruling for ruling in result.rulings}
    policy = _text(result.policy)
    driver = {
        "name": "fairprobe",
        "version": version("fairprobe"),
        "rules": [_rule(first[name]) for name in names],
    }
    results = [
        _result(ruling, names.index(ruling.name), result, policy) for ruling in result.failed
    ]
    body = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}],
    }
    return json.dumps(body, indent=1) + "\n"


def _rule(ruling: Ruling) -> dict[str, Any]:
    about = MEASURES[ruling.measure].about
    against = " Compared with the baseline run." if ruling.is_change else ""
    text = f"{about}{against} The policy wants {limit(ruling)}."
    return {
        "id": ruling.name,
        "shortDescription": {"text": f"{ruling.name} must be {limit(ruling)}."},
        "fullDescription": {"text": text},
        "help": {"text": f"{text} The run's report shows who is affected."},
        "defaultConfiguration": {"level": "error"},
    }


def _result(ruling: Ruling, place: int, result: GateResult, policy: str) -> dict[str, Any]:
    if result.policy is not None:
        where: dict[str, Any] = {
            "artifactLocation": {"uri": _uri(Path(result.policy))},
            "region": {"startLine": _line(ruling, policy)},
        }
    else:
        where = {
            "artifactLocation": {"uri": _uri(Path(result.run or "") / "audit.json")},
            "region": {"startLine": 1},
        }
    identity = sha256(
        "\n".join([result.dataset, ruling.name, ruling.what]).encode(errors="replace")
    ).hexdigest()
    return {
        "ruleId": ruling.name,
        "ruleIndex": place,
        "level": "error",
        "message": {"text": ruling.why},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": {
            "ruling/v1": identity
        },  # the same rule broken again is the same alert
    }


def _uri(path: Path) -> str:
    """Relative to the repository, as code hosts want it, or to where the command was given;
    elsewhere the full address.
    """
    whole = path.resolve()
    here = next(
        (folder for folder in whole.parents if (folder / ".git").exists()), Path.cwd().resolve()
    )
    if not whole.is_relative_to(here):
        return whole.as_uri()
    return whole.as_uri().removeprefix(here.as_uri()).lstrip("/")


def _text(policy: str | None) -> str:
    try:
        return "" if policy is None else Path(policy).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""


def _line(ruling: Ruling, policy: str) -> int:
    """Where the policy sets this limit; its first line if it is not found."""
    wanted, section = "baseline" if ruling.is_change else "limits", ""
    for number, line in enumerate(policy.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            section = header[1]
        elif section == wanted and re.match(rf"\s*[\"']?{ruling.measure}[\"']?\s*=", line):
            return number
    return 1
