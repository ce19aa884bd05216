"""DistroFair's printed numbers: each of the package's is the transcript's at the same place, and
each that has a counterpart of ours is shown.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest

from papers import paper
from papers.catalogue import EXPERIMENTS
from papers.distrofair.runs import SceneExperiment, known_dataset
from papers.distrofair.survey_tables import RankTests
from tests.helpers import assets

DATASETS = {"ms_coco": "coco", "cityscapes": "cityscapes", "all": "all"}
SYSTEMS = {"GCP": "google", "MS": "azure", "AWS": "amazon", "all": "all", "average": "all"}
MEASURES = {
    "class_violations": "violations",
    "error_inducing_inputs": "error_inducing",
    "generated_inputs": "tests",
    "fairness_error_rate": "error_rate",
    "fairness_error_rate_gain": "error_gain",
    "violation_rate_gain": "violation_gain",
    "generation_time": "seconds",
    "images_generated": "images",
    "labels_supported": "labels",
    "classes_in_experiments": "classes",
    "realism_vs_real": "realism_ratio",
    "likelihood_vs_real": "likelihood_ratio",
    "violated_classes_found_by_both": "both",
    "violated_classes_found_by_gt": "gt",
    "violated_classes_found_by_either": "either",
    "gt_violations_also_found_by_mt": "covered",
    "violations_found_by_both_share": "both_share",
    "violations_missed_by_mt_share": "only_gt",
    "violations_missed_by_gt_share": "only_mt",
    "violations_found_by_distrofair": "mutants",
    "violations_found_by_original_data": "originals",
    "violations_found_by_distrofair_only": "alone",
    "violations_found_by_either": "either",
    "violations_found_by_both": "both",
    "distrofair_gain_over_original": "gain",
    "missed_by_original_share": "only_mutants",
    "original_violations_also_found_by_distrofair": "covered",
    "below_mean_accuracy_only_in_ood": "only_mutants",
}
ACCURACIES = {
    "table11": {"dataset_images": "real", "ood_images": "generated", "ood_vs_dataset": "gain"},
    "table12": {"original_images": "original", "ood_images": "mutated", "ood_vs_original": "kept"},
}
SINGLE = {  # numbers of the text, by group and measure
    ("ood_vs_original", "mann_whitney_u"): ("tests", "originals", "all", "u"),
    ("ood_vs_original", "mann_whitney_p"): ("tests", "originals", "all", "p"),
    ("ood_vs_id", "mann_whitney_u"): ("tests", "usual", "all", "u"),
    ("ood_vs_id", "mann_whitney_p"): ("tests", "usual", "all", "p"),
    ("ood_vs_original", "realism_mann_whitney_u"): ("tests", "people", "all", "u"),
    ("ood_vs_original", "realism_mann_whitney_p"): ("tests", "people", "all", "p"),
    ("ood_images", "clip_iqa"): ("tests", "clip", "all", "mutated"),
    ("original_images", "clip_iqa"): ("tests", "clip", "all", "other"),
    ("ood_vs_original", "clip_iqa_mann_whitney_u"): ("tests", "clip", "all", "u"),
    ("ood_vs_original", "clip_iqa_mann_whitney_p"): ("tests", "clip", "all", "p"),
    ("", "images_per_hour"): ("table9", "all", "distrofair", "per_hour"),
    ("", "participants"): ("table10", "", "participants", "participants"),
    ("", "valid_responses"): ("table10", "", "valid", "participants"),
}
# Examples, years, axes, and what describes the authors' own setting: nothing of ours corresponds.
# The text's other numbers are those of the tables, rounded.
ALONE = {"table1", "fig1", "fig4", "parameter", "text", "user_study"}
YEARS = {"first_published", "availability"}


def places(row: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """Where the package holds a number of the transcript: a count that both oracles share twice."""
    table, group, operator = row["table"], row["class_or_group"], row["operator"]
    dataset, system = DATASETS.get(row["dataset"], "all"), SYSTEMS.get(row["system"], "")
    measure = MEASURES.get(row["measure"], row["measure"])
    oracle = row["oracle"].removeprefix("MT_")
    oracles = ("exclusion", "inclusion") if oracle == "MT" else (oracle,)
    if table in ALONE:
        if (group, row["measure"]) in SINGLE:
            name, sensitive, method, measure = SINGLE[group, row["measure"]]
            yield name, "all", sensitive, "", method, measure
    elif table in ("table5", "table10"):
        is_inducing = "error_inducing" in group + row["measure"]
        kind = "inducing" if is_inducing else "every"
        measure = measure.removeprefix("error_inducing_")
        yield table, dataset, "real" if group == "real" else operator, "", kind, measure
    elif table == "table7":
        yield from ((table, dataset, operator, one, system, measure) for one in oracles)
    elif table == "table8":
        kind = {"ID": "id", "OOD": "ood"}.get(group, "")
        yield from ((table, dataset, one, kind, system, measure) for one in oracles)
    elif table in ACCURACIES:
        yield table, dataset, "", "", system, ACCURACIES[table][group]
    elif table.startswith("fig"):
        yield f"figure{table[3]}", "all", "", table[4:], "all", measure
    else:
        method = {"table3": "pictures", "table9": "distrofair"}.get(table, system)
        yield table, dataset, operator, "", method, measure


def test_every_number_of_distrofair_is_the_transcript_s_at_its_place() -> None:
    path = assets().parent / "paper_tables" / "distrofair_tables.csv"
    if not path.exists():
        pytest.skip(f"compares with {path}, which is not there")
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    expected = {
        place: float(row["value"]) / (100 if row["unit"] == "pct" else 1)
        for row in rows
        if row["value"] and row["measure"] not in YEARS
        for place in places(row)
    }
    packaged = {
        (one.table.removeprefix("distrofair-"), *place[1:]): value
        for one in paper.figures()
        if one.table.startswith("distrofair-")
        for place in [(one.table, one.dataset, one.sensitive, one.phase, one.method, one.measure)]
        for value in [one.value]
    }
    assert packaged.keys() == expected.keys()
    for place, value in packaged.items():
        assert value == pytest.approx(expected[place], rel=1e-9), place


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *((name, "coco") for name in ("coco", "COCO", "MS-COCO", "mscoco", "ms_coco 2017")),
        *((name, "coco") for name in ("coco-val2017", "COCO 2014 train", "Microsoft COCO")),
        *((name, "cityscapes") for name in ("Cityscapes", "CityScapes", "cityscapes-bremen")),
        *((name, name) for name in ("cocoa-farm", "my coco", "coconuts", "cityscapes-c", "camvid")),
    ],
)
def test_only_the_paper_s_data_sets_are_taken_for_them(name: str, known: str) -> None:
    assert known_dataset(name) == known


def test_every_number_of_the_package_is_shown() -> None:
    """Beside ours or alone; p as a power of ten, where it has one."""
    for experiment in EXPERIMENTS.values():
        if not isinstance(experiment, SceneExperiment) or experiment.name == "distrofair-figure4":
            continue
        packaged = paper.figures(f"distrofair-{experiment.printed_in}")
        measures = {one.measure for one in packaged} - {"p"}
        shown = [cell.paper or 0 for cell in experiment.printed() if cell.measure in measures]
        assert sorted(one.value for one in packaged if one.measure in measures) == sorted(shown)
    cells = RankTests().printed()
    powers = {cell.sensitive: cell.paper for cell in cells if cell.measure == "log_p"}
    assert powers.pop("people") is None
    assert powers == pytest.approx({"originals": -46, "usual": -19.7, "clip": -0.004}, abs=0.01)
