"""What it gains to open a user's pipeline: searching a copy of its network and confirming with the
pipeline, beside searching with the pipeline's answers alone.

    python -m benchmarks.own_models

A scikit-learn pipeline (impute, one-hot, scale, network) on the raw census table, by sex, one
thread. All rates come from one run, in instances per second of processor time: an instance is a
person judged with both sexes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairprobe as fp
from fairprobe.judgement import judge
from fairprobe.models import TorchModel, one_thread
from fairprobe.search import choose_seeds, search
from fairprobe.table.searched import confirmed

SEEDS, CHECKED = 500, 50_000


def main() -> None:
    frame = fp.datasets.read_packaged("adult")
    data = fp.datasets.open_table(frame, label="income", favourable=">50K", sensitive="sex")
    numbers, words = (
        make_column_selector(dtype_include="number"),
        make_column_selector(dtype_exclude="number"),
    )
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), words),
    )
    pipeline = make_pipeline(prepare, MLPClassifier((32, 16), max_iter=5, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline.fit(frame.drop(columns="income"), frame["income"])
    model = fp.load_model(pipeline, data)
    assert isinstance(model, TorchModel)
    original = model.original
    assert original is not None
    rng = np.random.default_rng(0)
    people, seeds = (
        data.domain.sample(CHECKED, rng=rng),
        choose_seeds(data.domain, data.x, SEEDS, rng=rng),
    )
    with one_thread():
        bias = fp.neuron_bias(data.domain, model, data.x)
        method = fp.NeuronFair(layer=bias.most_biased)
        ask = seconds(lambda: judge(data.domain, original, people))
        copy = seconds(lambda: judge(data.domain, model, people))
        start = time.process_time()
        findings = search(data.domain, model, method, seeds, fp.Budget(seeds=SEEDS), rng=rng)
        searched = time.process_time() - start
        confirming = seconds(lambda: confirmed(findings, original, lambda *_: None))
    judged = findings.generation.judged
    rates = {
        "asking the pipeline itself": CHECKED / ask,
        "asking the copy": CHECKED / copy,
        f"searching the copy ({len(findings):,} findings)": judged / searched,
        "searching and confirming": judged / (searched + confirming),
    }
    for name, rate in rates.items():
        print(
            f"{name:<44} {rate:>10,.0f} /s   {rate * ask / CHECKED:5.2f} of the pipeline's  "
            f" {rate * copy / CHECKED:5.2f} of the copy's"
        )


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
