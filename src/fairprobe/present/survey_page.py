"""The realism survey as one self-contained HTML page: pictures one after another, two questions
from 0 to 10 and a count, answers as CSV.

The paper's user study (Rajan et al., 2024, section 4.2). The page holds its pictures and its one
script and loads nothing; the answers stay in the participant's browser until they are downloaded.
The order of the pictures is the document's, and their ids are all the page knows.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from fairprobe.present import _environment
from fairprobe.present.shots import source

Document = dict[str, Any]

INTRO = (
    "You will see pictures, one after another.",
    (
        "For each picture, please say how realistic it looks to you, how likely the scene is in"
        " real life, and how many vehicles you see."
    ),
    (
        "There are no right or wrong answers to the first two questions. You can go back, pause,"
        " and come back later on this device."
    ),
)
REALISM = (
    "On a scale of 0 to 10, how realistic is the picture?",
    "“Realistic” means that the picture shows, or seems to show, real people, objects or scenes.",
)
LIKELIHOOD = (
    "On a scale of 0 to 10, how likely is the scene in the picture to occur in real life?",
    "",
)
QUESTIONS = (
    ("realism", *REALISM, "not at all realistic", "fully realistic"),
    ("likelihood", *LIKELIHOOD, "impossible", "certain to occur"),
)


def render_survey(document: Document) -> str:
    """The page's HTML. The document: title, study (under which answers are kept), intro, and
    pictures with an id and a source each.
    """
    script = (
        files("fairprobe.present").joinpath("templates", "survey.js").read_text(encoding="utf-8")
    )
    template = _environment().get_template("survey.html.j2")
    return template.render(
        title=document["title"],
        study=document.get("study") or document["title"],
        intro=document.get("intro") or INTRO,
        questions=QUESTIONS,
        pictures_shown=[
            {
                "id": picture["id"],
                "src": source(picture["src"]),
                "width": picture.get("width"),
                "height": picture.get("height"),
            }
            for picture in document["pictures"]
        ],
        version=(document.get("versions") or {}).get("fairprobe", ""),
        script=Markup(script),  # noqa: S704  (the package's own file; nothing of the document is in it)
        script_hash=f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'",
    )
