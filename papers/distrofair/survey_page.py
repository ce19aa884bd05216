"""The realism survey as one self-contained HTML page: pictures one after another, two questions
from 0 to 10 and a count, answers as CSV.

The paper's user study (Rajan et al., 2024, section 4.2). The page holds its pictures and its one
script and loads nothing; the answers stay in the participant's browser until they are downloaded.
The names of the pictures are all that the page knows about them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from fairprobe.report.html import environment
from fairprobe.present.shots import source

INTRO = (
    "You will see pictures, one after another.",
    "For each picture, please say how realistic it looks to you, how likely the scene is in real"
    " life, and how many vehicles you see.",
    "There are no right or wrong answers to the first two questions. You can go back, pause, and"
    " come back later on this device.",
)
QUESTIONS = (
    (
        "realism",
        "On a scale of 0 to 10, how realistic is the picture?",
        "“Realistic” means that the picture shows, or seems to show, real people, objects or"
        " scenes.",
        "not at all realistic",
        "fully realistic",
    ),
    (
        "likelihood",
        "On a scale of 0 to 10, how likely is the scene in the picture to occur in real life?",
        "",
        "impossible",
        "certain to occur",
    ),
)


class PagePicture(NamedTuple):
    """A picture of the survey: its name, a data URL, and its size."""

    id: str
    src: str
    width: int
    height: int


def render_survey(title: str, study: str, pictures: Sequence[PagePicture]) -> str:
    """The page's HTML, with the pictures in this order; answers are stored under `study`."""
    script = files("papers").joinpath("templates", "survey.js").read_text("utf-8")
    variables = {
        "title": title,
        "study": study,
        "intro": INTRO,
        "questions": QUESTIONS,
        "pictures_shown": [picture._replace(src=source(picture.src)) for picture in pictures],
        "version": "",
        "script": Markup(script),  # noqa: S704  (the package's own file)
        "script_hash": f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'",
    }
    return environment("papers").get_template("survey.html.j2").render(variables)
