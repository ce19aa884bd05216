"""The result as JUnit XML, which build servers read: a test case for each ruling."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fairprobe.gate.ruling import GateResult
from fairprobe.gate.words import limit

NOT_XML = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # characters that no XML file may hold, even escaped


def junit(result: GateResult) -> str:
    """One suite with a case for each ruling; failed ones say why."""
    about = {
        "name": "fairprobe",
        "tests": str(len(result.rulings)),
        "failures": str(len(result.failed)),
        "errors": "0",
        "skipped": "0",
    }
    suites = Element("testsuites", about)
    suite = SubElement(suites, "testsuite", about)
    for ruling in result.rulings:
        named = {
            "classname": clean(f"fairprobe.{result.dataset}"),
            "name": clean(f"{ruling.what}: {limit(ruling)}"),
            "time": "0",
        }
        case = SubElement(suite, "testcase", named)
        if ruling.decided == "fail":
            SubElement(case, "failure", message=clean(ruling.why), type=ruling.name).text = clean(
                ruling.why
            )
        else:
            SubElement(case, "system-out").text = clean(ruling.why)
    indent(suites)
    return tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def clean(text: str) -> str:
    """Return the text without characters that XML forbids."""
    return NOT_XML.sub("", text)
