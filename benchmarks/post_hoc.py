"""Post-hoc repairs of XGBoost and of a random forest, behind one-hot encoding: what each does to
the rate of discrimination, to accuracy and to groups, and how much longer an answer takes.

    python -m benchmarks.post_hoc [--rows 12000]     prints a Markdown table

The models learn from the training part of the split by seed 0; everything is measured on the people
held out, plausible people and everybody in the data. The factor of time is that of the saved
classifier beside the given one on the same 4,000 rows, in CPU seconds, in one run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import skops.io
import xgboost
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fairprobe as fp
from fairprobe.models.formats.skops_file import load_skops
from fairprobe.repairs.plans import plan_of
from fairprobe.repairs.wrappers import fitted_classifier
from fairprobe.results import Rate
from fairprobe.search import Budget

# Name: data, sensitive column, label, favorable class, columns left out
TABLES = {
    "Adult, sex": ("adult", "sex", "income", ">50K", ()),
    "Adult, race": ("adult", "race", "income", ">50K", ()),
    "COMPAS, race": (
        *("compas", "race", "two_year_recid", "0"),
        ("is_recid", "score_text", "c_charge_desc", "age_cat", "days_b_screening_arrest"),
    ),
}
MODELS: dict[str, Callable[[], Any]] = {
    "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=100, random_state=0, n_jobs=1),
    "random forest": lambda: RandomForestClassifier(100, max_depth=12, random_state=0, n_jobs=1),
}
REPAIRS = {
    "average": fp.repairs.Average(),
    "average, by share": fp.repairs.Average(weights="shares"),
    "thresholds, demographic parity": fp.repairs.Thresholds(),
    "thresholds, equal opportunity": fp.repairs.Thresholds(criterion="equal_opportunity"),
    "abstain": fp.repairs.Abstain(),
}
TIMED, TIMES = 4_000, 5


def pipeline(model: Any) -> Any:
    return make_pipeline(
        make_column_transformer(
            (
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                make_column_selector(dtype_exclude="number"),
            ),
            remainder="passthrough",
        ),
        model,
    )


def seconds(answer: Callable[[Any], Any], table: pd.DataFrame) -> float:
    """The median of CPU seconds for this table."""
    measured = []
    for _ in range(TIMES):
        start = time.process_time()
        answer(table)
        measured.append(time.process_time() - start)
    return float(np.median(measured))


def rows_of(name: str, rows: int) -> tuple[pd.DataFrame, str, str, str]:
    table, sensitive, label, favourable, dropped = TABLES[name]
    people = fp.datasets.read_packaged(table).drop(columns=list(dropped))
    return people.sample(min(rows, len(people)), random_state=0), sensitive, label, favourable


def compare(name: str, kind: str, rows: int, folder: Path) -> list[str]:
    people, sensitive, label, favourable = rows_of(name, rows)
    people.to_csv(folder / "people.csv", index=False)
    data = fp.datasets.open_table(
        folder / "people.csv", label=label, favourable=favourable, sensitive=sensitive
    )
    table = pd.read_csv(folder / "people.csv")
    truth = (table.pop(label).astype(str) == favourable).astype(int)
    learn = data.split(0).train
    given = pipeline(MODELS[kind]()).fit(table.iloc[learn], truth.iloc[learn])
    other = next(each for each in data.classes if each != favourable)
    model = fp.load_model(given, data, classes=[other, favourable])
    some = table.iloc[:TIMED]
    before = seconds(given.predict_proba, some)
    lines = []
    for repair_name, repair in REPAIRS.items():
        proof, repaired = fp.repairs.prove(
            model, data, repair, samples=5_000, budget=Budget(seeds=50, local_iterations=50)
        )
        plan = plan_of(repair, repaired, data, order=model.joint.order if model.joint else None)
        skops.io.dump(fitted_classifier(given, plan), folder / "model.skops")
        after = seconds(load_skops(folder / "model.skops").predict_proba, some)
        was, now = proof.before, proof.after
        assert was.accuracy
        assert now.accuracy
        assert was.dp
        assert now.dp
        handed = proof.handed_over.get("")
        eo = data.classes.index(favourable)
        lines.append(
            f"| {name} | {kind} | {repair_name} | {proof.outcome} |"
            f" {was.people.estimate:.2%} → {now.people.estimate:.2%} |"
            f" {_plausible(was)} → {_plausible(now)} |"
            f" {was.accuracy.estimate:.1%} → {now.accuracy.estimate:.1%} |"
            f" {was.dp.estimate or 0:.3f} → {now.dp.estimate or 0:.3f} |"
            f" {was.eo[eo].estimate or 0:.3f} → {now.eo[eo].estimate or 0:.3f} |"
            f" {_share(handed)} |"
            f" {after / before:.1f} |"
        )
        print(lines[-1], flush=True)
        for reason in (*proof.reasons, *proof.decision.doubts):
            print(f"    {reason}", flush=True)
    return lines


def _share(rate: Rate | None) -> str:
    return "" if rate is None else f"{rate.estimate:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _plausible(measured: Any) -> str:
    return "" if measured.plausible is None else f"{measured.plausible.estimate:.2%}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=12_000)
    rows = parser.parse_args().rows
    print(
        "| data | model | repair | verdict | people in the data affected | plausible people |"
        " accuracy | ΔDP | ΔEO (favorable) | handed over | time |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            for kind in MODELS:
                compare(name, kind, rows, Path(folder))


if __name__ == "__main__":
    main()
