"""Drawing where there is no home folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DRAWING = """
from fairprobe.present.svg import drawn
print(len(drawn("a", 50, lambda figure, slots: None, says="nothing")) > 100)
"""


def test_without_a_home_a_drawing_is_made_in_silence_and_leaves_no_folder(tmp_path: Path) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", DRAWING],
        capture_output=True,
        text=True,
        check=False,
        env=kept | {"HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)},
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert list(tmp_path.iterdir()) == []
