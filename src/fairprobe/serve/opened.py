"""Open runs: results, schemas, findings, models and plausible people, as long as their files stay
the same. The least recently used are closed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import file_digest
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeVar

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset, Outline
from fairprobe.documents.files import file_in
from fairprobe.documents.table import ModelOrigin, TableRun
from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError, StorageError
from fairprobe.findings import Findings
from fairprobe.images.run import ImagesRun
from fairprobe.models import FORMATS, Model, TorchModel, load_model
from fairprobe.models.formats.own_code import OWN_CODE
from fairprobe.people.plausible import FEWEST, PlausiblePeople
from fairprobe.report import Section
from fairprobe.runs.kinds import RunDocument, report_of
from fairprobe.runs.reopen import data_of, model_of, outline_of
from fairprobe.runs.store import FINDINGS, read_run
from fairprobe.serve.albums import ImageAlbum, SceneAlbum
from fairprobe.serve.browse import Browser
from fairprobe.serve.places import Place, find
from fairprobe.serve.settings import ServeSettings
from fairprobe.serve.uploads import upload_with

MOST_OPEN = 12  # runs
ENDPOINT_BOUNDS = {  # of the settings with which a run may ask a server
    "timeout": (0.1, 120.0),
    "retries": (0, 10),
    "pause": (0, 10.0),
    "per_second": (0.1, 1e6),
    "batch": (1, 100_000),
    "concurrency": (1, 8),
}
ENDINGS = {
    ".safetensors",
    *(end for each in FORMATS if each is not OWN_CODE for end in each.endings),
}
Part = TypeVar("Part")


class once(cached_property[Part]):  # noqa: N801  (used like property)
    """A part of a run that is opened once, by one of the threads that need it."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        with instance.lock:
            return super().__get__(instance, owner)


@dataclass
class OpenRun:
    """One state of a run. What is expensive is opened when it is first needed."""

    place: Place
    document: RunDocument
    settings: ServeSettings
    lock: RLock = field(default_factory=RLock)
    _drawn: tuple[int, Rows] | None = None
    kept: dict[str, str] = field(default_factory=dict)  # rendered parts of pages

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def table(self) -> TableRun:
        """The run of an audit of classes; others raise SettingError."""
        if not isinstance(self.document, TableRun) or self.document.amounts is not None:
            raise SettingError(
                f"'{self.name}' is not an audit of a table with classes, so there are no"
                " people to look at. Choose one in the list of runs."
            )
        return self.document

    @once
    def report(self) -> Section:
        return report_of(self.document)

    @once
    def outline(self) -> Outline:
        """Read schema and classes, without rows where the table is the user's own."""
        return outline_of(self.table, self.place.folder)

    @once
    def browser(self) -> Browser:
        try:
            path = file_in(self.place.folder, FINDINGS)
        except FileNotFoundError as error:
            raise StorageError(
                f"'{self.name}' has no {FINDINGS}. Run the audit again to get its findings."
            ) from error
        return Browser(Findings.load(path, self.outline.domain))

    @once
    def data(self) -> Dataset:
        """Read the rows: packaged ones, or an upload that is the table of the run."""
        if isinstance(self.outline, Dataset):
            return self.outline
        origin = self.table.data.origin
        table = None if origin is None else upload_with(self.settings, origin.sha256)
        if table is None:
            raise DataError(
                "The rows of this run are in a table of your own, which lies elsewhere. Upload the"
                " same table on the page Start to use it here."
            )
        return data_of(self.table, self.place.folder, table.path)

    @once
    def model(self) -> Model:
        """Open the network in the run, or the user's own from the folder of models."""
        document, folder = self.table, self.place.folder
        if self.model_origin is None:
            return model_of(document, folder, self.outline)
        given = self.own_model()
        source = given.pop("source")
        return model_of(document, folder, self.data, lambda data: load_model(source, data, **given))

    @property
    def model_origin(self) -> ModelOrigin | None:
        """How the user's own model was loaded; None for a network in the run."""
        return self.table.model.origin

    def own_model(self) -> dict[str, Any]:
        """Return the arguments of `load_model` for the user's own model. Files are found by content
        in the folder of models; what a run names elsewhere is not opened.
        """
        origin = self.model_origin
        assert origin is not None
        given = origin.arguments()
        if self.is_endpoint:
            return {**given, "source": self._endpoint(origin)}
        for part in ("encoder", "weights"):
            if given[part]:
                given[part] = str(self._own_file(given[part], origin))
        return {"source": str(self._own_file(origin.source, origin)), **given}

    @property
    def is_endpoint(self) -> bool:
        """Return True if the model is a server."""
        origin = self.model_origin
        return origin is not None and origin.source.startswith(("http://", "https://"))

    def _endpoint(self, origin: ModelOrigin) -> str:
        """Return the address that the user named for this run. Request settings come from the run,
        within limits.
        """
        address = self.settings.endpoints.get(self.name)
        if address is None:
            raise ModelError(
                f"The model of this run is a server ('{origin.source}'), and nobody is contacted"
                " because a run says so. To ask it here, name it when you start the dashboard:"
                f" fairprobe serve --model '{self.name}={origin.source}'."
            )
        for name, (least, most) in ENDPOINT_BOUNDS.items():
            value = (origin.endpoint or {}).get(name)
            if value is not None and not (
                isinstance(value, int | float) and least <= value <= most
            ):
                raise ModelError(
                    f"The run asks its server with {name} = {value}; here it must be a number from"
                    f" {least:g} to {most:g}. Run the audit again."
                )
        if files := [name for name in ("ca", "certificate") if (origin.endpoint or {}).get(name)]:
            raise ModelError(
                f"The run asks its server with a file of its own ({files[0]}), and no file is read"
                " because a run says so. Ask it from the command line."
            )
        return address

    def _own_file(self, name: str, origin: ModelOrigin) -> Path:
        for path in models_in(self.settings):
            with path.open("rb") as file:
                if file_digest(file, "sha256").hexdigest() == origin.files.get(name):
                    return path
        raise ModelError(
            f"The model of this run is your own, and '{name}' is not in the run. Start the server"
            " with --models and the folder in which the same file lies."
        )

    @once
    def image_album(self) -> ImageAlbum:
        """All pairs of pictures that an audit on pictures found."""
        assert isinstance(self.document, ImagesRun)
        return ImageAlbum.open(self.place.folder, self.document)

    @once
    def scene_album(self) -> SceneAlbum:
        """All tests of an audit of scenes."""
        return SceneAlbum.open(self.place.folder)

    @once
    def people(self) -> PlausiblePeople:
        """Learn the distribution of the rows, which takes seconds."""
        return PlausiblePeople.fit(self.data, seed=self.table.seed)

    @property
    def people_if_known(self) -> PlausiblePeople | None:
        """Return the distribution if it was learned already."""
        known: PlausiblePeople | None = self.__dict__.get("people")
        return known

    @property
    def has_rows(self) -> bool:
        """Return True if plausible people can be made here."""
        try:
            return len(self.data) >= FEWEST
        except FairprobeError:
            return False

    def drawn(self, seed: int, count: int) -> Rows:
        """Draw new plausible people; the same seed gives the same ones."""
        with self.lock:
            if self._drawn is None or self._drawn[0] != seed:
                rng = np.random.default_rng(seed)
                self._drawn = seed, self.people.draw(count, rng=rng)
            return self._drawn[1]

    @property
    def network(self) -> TorchModel | None:
        """Return the model if its layers can be read."""
        model = self.model
        return model if isinstance(model, TorchModel) else None


def models_in(settings: ServeSettings) -> list[Path]:
    """List the files of the folder of models, in formats that run no code of theirs; no links."""
    if settings.models is None:
        return []
    every = (path for path in settings.models.iterdir() if not path.name.startswith("."))
    files = (path for path in every if path.is_file() and not path.is_symlink())
    return sorted(path for path in files if path.suffix.lower() in ENDINGS)


@dataclass
class OpenRuns:
    """The runs that are open."""

    settings: ServeSettings
    _open: OrderedDict[str, OpenRun] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, name: str) -> OpenRun:
        """Open a run by its name, again if its document changed."""
        place = find(self.settings.runs, name)
        with self._lock:
            run = self._open.get(name)
            if run is None or run.place.stamp != place.stamp:
                run = OpenRun(place, read_run(place.folder), self.settings)
            self._open[name] = run
            self._open.move_to_end(name)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return run

    def kept(self, run: OpenRun, key: str, make: Callable[[], str]) -> str:
        """Return a rendered part of a page, from memory if it is there."""
        if key not in run.kept:
            run.kept[key] = make()
        return run.kept[key]
