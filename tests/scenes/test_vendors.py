"""The three vendors through their own client libraries, against a local server that speaks what
they speak.
"""

from __future__ import annotations

import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairprobe.errors import ModelError, SettingError
from fairprobe.scenes.detectors import open_detector
from fairprobe.scenes.detectors.base import Detection, TryAgainError
from fairprobe.scenes.detectors.vendors import (
    AmazonDetector,
    AzureDetector,
    GoogleDetector,
    VendorDetector,
    requested_pause,
)
from fairprobe.scenes.queries import Failure, query
from fairprobe.scenes.scene import Picture
from tests.vendor_servers import BROKEN, GOOD, HALF, Manner, Name, VendorServer, vendor_server

SECRET = "s3cret-k3y-of-the-tests"
VENDORS: tuple[Name, ...] = ("google", "amazon", "azure")
PERSON = Detection("person", 0.875, (0.0, 25.0, 100.0, 100.0))
SEEN = {
    "google": (PERSON, Detection("car", 0.75, (100.0, 50.0, 150.0, 75.0))),
    "amazon": (PERSON,),  # it also says "Road", without a place
    "azure": (PERSON, Detection("motorcycle", 0.75, (100.0, 50.0, 150.0, 75.0))),
}


def picture(value: int = 0) -> Picture:
    return np.full((100, 200, 3), value, dtype=np.uint8)


def pictures(count: int) -> list[tuple[str, Picture]]:
    return [(f"picture {number}", picture(number)) for number in range(count)]


def set_up(
    name: Name, address: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> Callable[[], VendorDetector]:
    """The vendor's own environment, and nothing of the machine's."""
    for variable, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
        "AWS_CONFIG_FILE": str(folder / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "VISION_ENDPOINT": address,
        "VISION_KEY": SECRET,
        "NO_GCE_CHECK": "true",
        "CLOUDSDK_CONFIG": str(folder),
        "no_proxy": "*",
    }.items():
        monkeypatch.setenv(variable, value)
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    ways: dict[str, Callable[[], VendorDetector]] = {
        "google": lambda: GoogleDetector(endpoint=address),
        "amazon": AmazonDetector,
        "azure": AzureDetector,
    }
    return ways[name]


class Vendor:
    """A vendor's server, and its detector."""

    def __init__(self, name: Name, server: VendorServer, detector: VendorDetector) -> None:
        self.name, self.server, self.detector = name, server, detector
        self.good = SEEN[name]

    def asked(self, count: int, **settings: Any) -> list[Any]:
        settings = {"pause": 0.01, "timeout": 60, "retries": 2, **settings}
        found = dict(query(self.detector, pictures(count), **settings))
        assert list(found) == [key for key, _ in pictures(count)]
        return list(found.values())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Name, Vendor]]:
    with ExitStack() as stack:
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        found = {}
        for name in VENDORS:
            server = stack.enter_context(vendor_server(name))
            opened = set_up(name, server.address, monkeypatch, tmp_path_factory.mktemp(name))
            found[name] = Vendor(name, server, opened())
        yield found


@pytest.fixture(params=VENDORS)
def vendor(
    request: pytest.FixtureRequest,
    running: dict[Name, Vendor],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Vendor:
    found = running[request.param]
    set_up(found.name, found.server.address, monkeypatch, tmp_path)
    found.server.script.clear()
    found.server.seen.clear()
    return found


def of(*names: Name) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vendor", names, indirect=True)


# -- speaking well ---------------------------------------------------------------------------------


def test_the_vendors_objects_become_labels_scores_and_boxes_in_pixels(vendor: Vendor) -> None:
    assert vendor.asked(1) == [vendor.good]
    assert vendor.server.seen[0]["size"] == (200, 100)
    assert vendor.detector.is_remote


def test_each_vendor_gets_its_limit_and_azure_the_key_in_its_header_only(vendor: Vendor) -> None:
    """Google's usual ten objects are too few, and Amazon sends only what counts."""
    vendor.detector.detect(picture())
    seen = vendor.server.seen[0]
    secret = [name for name, value in seen["headers"].items() if SECRET in value]
    if vendor.name == "google":
        assert seen["most"] == 100
    elif vendor.name == "amazon":
        assert seen["least"] == pytest.approx(55)
    assert secret == (["Ocp-Apim-Subscription-Key"] if vendor.name == "azure" else [])


def test_the_second_run_pays_for_nothing(vendor: Vendor, tmp_path: Path) -> None:
    first = vendor.asked(3, cache=tmp_path / "cache")
    assert len(vendor.server.seen) == 3
    assert vendor.asked(3, cache=tmp_path / "cache") == first == [vendor.good] * 3
    assert len(vendor.server.seen) == 3


def test_no_secret_is_kept_or_sent_to_another_process(vendor: Vendor, tmp_path: Path) -> None:
    vendor.asked(1, cache=tmp_path / "cache")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*.json"))
    assert b"person" in kept
    sent = pickle.dumps(vendor.detector)
    assert SECRET.encode() not in kept + sent
    again = pickle.loads(sent)
    assert again.identity == vendor.detector.identity
    assert again.detect(picture()) == vendor.good


# -- misbehaving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again_when_the_vendor_says(
    vendor: Vendor, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    vendor.server.script = [Manner(status, "slow down", {"Retry-After": "0.3"})]
    assert vendor.asked(2) == [vendor.good] * 2
    assert [pause for pause in pauses if pause] == [0.3]
    assert len(vendor.server.seen) == 3


def test_a_vendor_that_always_fails_is_a_failure_and_the_rest_goes_on(
    vendor: Vendor, tmp_path: Path
) -> None:
    vendor.server.script = [GOOD, *[Manner(500, "internal trouble")] * 3]
    first, second, third = vendor.asked(3, cache=tmp_path)
    assert first == third == vendor.good
    assert isinstance(second, Failure)
    assert second.reason.startswith(
        f"{vendor.name} gave no answer in 3 tries: {vendor.detector.vendor} answered 500: "
    )
    assert "internal trouble" in second.reason
    assert len(vendor.server.seen) == 5
    assert vendor.asked(3, cache=tmp_path) == [vendor.good] * 3
    assert len(vendor.server.seen) == 6  # only the picture that failed


def test_a_refusal_is_reported_once_with_what_to_set_and_without_the_secret(vendor: Vendor) -> None:
    vendor.server.script = [Manner(403, f"the key {SECRET} may not do this")]
    first, second = vendor.asked(2)
    assert isinstance(first, Failure)
    assert "answered 403" in first.reason
    assert "may not do this" in first.reason
    assert vendor.detector.credentials in first.reason
    # Google's secret is in a file that only its library reads.
    assert SECRET not in first.reason or vendor.name == "google"
    assert second == vendor.good
    assert len(vendor.server.seen) == 2


@pytest.mark.parametrize("manner", [BROKEN, HALF])
def test_an_answer_that_cannot_be_read_is_a_failure_and_the_rest_goes_on(
    vendor: Vendor, manner: Manner
) -> None:
    vendor.server.script = [manner]
    first, second = vendor.asked(2)
    assert isinstance(first, Failure)
    assert "sent an answer that its client library cannot read" in first.reason
    assert second == vendor.good
    assert len(vendor.server.seen) == 2


def test_an_answer_that_comes_too_late_is_kept_for_the_next_run(
    vendor: Vendor, tmp_path: Path
) -> None:
    late = threading.Event()
    vendor.server.script = [Manner(after=late)]
    assert vendor.asked(1, cache=tmp_path, timeout=0.2) == [
        Failure(f"{vendor.name} did not answer within 0.2 seconds.")
    ]
    late.set()
    for thread in threading.enumerate():
        if thread.name == f"query {vendor.name}":
            thread.join()
    assert vendor.asked(2, cache=tmp_path) == [vendor.good] * 2
    assert len(vendor.server.seen) == 2


def test_a_server_that_does_not_exist_is_reported(
    running: dict[Name, Vendor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    for name in VENDORS:
        detector = set_up(name, address, monkeypatch, tmp_path)()
        (answer,) = dict(query(detector, pictures(1), retries=1, pause=0.01)).values()
        assert isinstance(answer, Failure)
        assert f"gave no answer in 2 tries: {detector.vendor} could not be reached" in answer.reason


@of("google")
def test_googles_trouble_inside_a_good_answer(vendor: Vendor) -> None:
    vendor.server.script = [
        Manner(content=b'{"responses": [{"error": {"code": 14, "message": "unavailable"}}]}'),
        GOOD,
        Manner(content=b'{"responses": [{"error": {"code": 3, "message": "Bad image data"}}]}'),
    ]
    first, second = vendor.asked(2)
    assert first == vendor.good
    assert second == Failure("google: Google Cloud Vision answered 200: Bad image data (code 3).")


@of("amazon")
def test_amazons_quota_with_status_400_is_tried_again(vendor: Vendor) -> None:
    vendor.server.script = [Manner(400, "too fast")]
    assert vendor.asked(1) == [vendor.good]
    assert len(vendor.server.seen) == 2


# -- setting up ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variable", "message"),
    [
        ("google", "GOOGLE_APPLICATION_CREDENTIALS", "Set GOOGLE_APPLICATION_CREDENTIALS"),
        ("amazon", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"),
        ("amazon", "AWS_DEFAULT_REGION", "Set AWS_DEFAULT_REGION"),
        ("azure", "VISION_KEY", "VISION_ENDPOINT .* and VISION_KEY"),
        ("azure", "VISION_ENDPOINT", "VISION_ENDPOINT .* and VISION_KEY"),
    ],
)
def test_missing_credentials_are_reported_before_any_query(
    name: Name, variable: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_up(name, "http://127.0.0.1:9", monkeypatch, tmp_path)
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SettingError, match=message) as caught:
        open_detector(name)
    assert SECRET not in str(caught.value)


def test_the_key_of_azure_is_not_sent_over_plain_http(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_up("azure", "http://example.org", monkeypatch, tmp_path)
    with pytest.raises(SettingError, match="must begin with https://"):
        open_detector("azure")


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("google", "google.cloud.vision"),
        ("amazon", "boto3"),
        ("azure", "azure.ai.vision.imageanalysis"),
    ],
)
def test_a_missing_library_is_reported_with_what_to_install(
    name: Name, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelError, match=rf'pip install "fairprobe\[{name}\]"'):
        open_detector(name)


@of("azure")
def test_a_picture_too_large_for_png_goes_as_jpeg_and_one_too_large_for_both_is_refused(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (100, 200, 3), dtype=np.uint8)
    monkeypatch.setattr(AzureDetector, "largest", 50_000)
    assert vendor.detector.detect(noise) == vendor.good
    monkeypatch.setattr(AzureDetector, "largest", 500)
    too_large = r"200×100 pixels takes more than the 0\.0005 MB that Azure AI Vision allows"
    with pytest.raises(ModelError, match=too_large):
        vendor.detector.detect(noise)
    assert len(vendor.server.seen) == 1


def test_a_threshold_outside_its_range_is_refused() -> None:
    with pytest.raises(SettingError, match="between 0 and 1; got 50"):
        GoogleDetector(threshold=50)


def test_a_requested_pause_is_in_seconds_or_a_date() -> None:
    assert requested_pause({"Retry-After": "7"}) == 7
    assert requested_pause({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert requested_pause({"retry-after": "Wed, 21 Oct 2115 07:28:00 GMT"}) > 1e9
    assert requested_pause({"retry-after": "soon"}) == requested_pause({}) == 0
    assert TryAgainError("busy", 3).after == 3
