"""The base of documents, under the names they had; `fairprobe.results` declares it."""

from fairprobe.results import (
    ROUNDING,
    Amount,
    AnyResult,
    Count,
    Header,
    Number,
    RankTest,
    Seconds,
    Settings,
    Share,
    check_interval,
    decode,
    encode,
    from_dict,
    header_of,
    to_dict,
)
from fairprobe.results import Estimate as EstimateDocument
from fairprobe.results import Rate as RateDocument
from fairprobe.results import Result as Document

RankTestDocument = RankTest

__all__ = [
    "ROUNDING",
    "Amount",
    "AnyResult",
    "Count",
    "Document",
    "EstimateDocument",
    "Header",
    "Number",
    "RankTestDocument",
    "RateDocument",
    "Seconds",
    "Settings",
    "Share",
    "check_interval",
    "decode",
    "encode",
    "from_dict",
    "header_of",
    "to_dict",
]
