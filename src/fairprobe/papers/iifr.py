"""The IIFR paper's tables 4, 6, 7 and 8: individual and group fairness of its models, and of our
own two beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fairprobe.papers import paper
from fairprobe.papers.base import Experiment, Plan, Subject, collected, introduction
from fairprobe.papers.jobs import Job, Outcome, Plain
from fairprobe.papers.tables import Cell, Measure, Table

WORK = "fairprobe.papers.iifr_work:fit"
ADULT, COMPAS, GERMAN = (
    Subject("adult", "gender"),
    Subject("compas", "race"),
    Subject("german", "age"),
)
SUBJECTS = (ADULT, COMPAS, GERMAN)
OURS = ("counterfactual", "blind")
MODELS = (
    "mlp",
    "alfr",
    "laftr",
    "cfair",
    "mlp+eidig",
    "mlp+iifr",
    "alfr+iifr",
    "laftr+iifr",
    "cfair+iifr",
    *OURS,
)
EPSILON = 0.8  # the paper's ε

# λ of each model, and how many times as fast as the network its adversary learns. All chosen on
# validation people, by the rules of benchmarks/choose_settings.py; only MLP+IIFR on Adult has the λ
# = 1 that fits the paper's figures.
STRENGTHS = {
    "adult": {
        "mlp+iifr": 1.0,
        "alfr+iifr": 0.3,
        "laftr+iifr": 0.3,
        "cfair+iifr": 0.3,
        "counterfactual": 200.0,
    },
    "compas": {
        "mlp+iifr": 1.0,
        "alfr+iifr": 0.3,
        "laftr+iifr": 0.3,
        "cfair+iifr": 0.03,
        "counterfactual": 200.0,
    },
    "german": {
        "mlp+iifr": 0.03,
        "alfr+iifr": 1.0,
        "laftr+iifr": 0.03,
        "cfair+iifr": 1.0,
        "counterfactual": 200.0,
    },
}
SPEEDS = {
    "adult": {"alfr": 3.0, "laftr": 2.0, "cfair": 2.0},
    "compas": {"alfr": 2.0, "laftr": 1.0, "cfair": 2.0},
    "german": {"alfr": 2.0, "laftr": 2.0, "cfair": 2.0},
}
# of the test people: a run that gives fewer the rarer answer is the majority class in disguise
NEARLY_NOBODY = 0.01
QUICK_EPOCHS = {"adult": 2, "compas": 5, "german": 5}
SECONDS = {
    "adult": 6.0,
    "compas": 3.0,
    "german": 1.0,
}  # of one training, about: the order of the jobs


def fitting(
    plan: Plan,
    subject: Subject,
    model: str,
    repeat: int,
    *,
    strength: float | None = None,
    threshold: float = EPSILON,
) -> Job:
    """The job that trains and measures a model. Tables that need the same one get the same job."""
    dataset, base = subject.dataset, model.partition("+")[0]
    chosen = STRENGTHS[dataset].get(model, 0.0) if strength is None else strength
    is_iifr = model.endswith("+iifr")
    turned = [f"l{chosen:g}"] if model in STRENGTHS[dataset] else []
    turned += [f"e{threshold:g}"] if is_iifr else []
    settings: dict[str, Any] = {
        "dataset": dataset,
        "model": model,
        "seed": plan.seed,
        "repeat": repeat,
        "asked": "test",
        "epochs": None if plan.is_full else QUICK_EPOCHS[dataset],
        "strength": chosen,
        "threshold": threshold,
        "speed": SPEEDS[dataset].get(base),
        "from_plain": (
            model == "counterfactual" and subject == GERMAN
        ),  # so narrow a network learns both at once only by luck
        "seeds": 500 if plan.is_full else 50,
    }
    name = "-".join(
        ["iifr", plan.scale, str(subject), model.replace("+", "-"), *turned, str(repeat)]
    )
    weight = SECONDS[dataset] * (3 if model == "mlp+eidig" else 1)
    return Job(id=name, work=WORK, settings=settings, weight=weight)


ACCURACY = Measure("accuracy", "Accuracy", "share")
INDIVIDUAL = (
    Measure(
        "ifr_b", "IFR_b", "share", "Pairs of a person and a counterpart who get the same label."
    ),
    Measure(
        "ifr_p",
        "IFR_p",
        "share",
        "Pairs with the same label and a Jensen–Shannon divergence of at most 0.001 nats.",
    ),
)
GROUPS = (
    Measure(
        "delta_dp", "ΔDP", "number", "How far the groups' rates of positive answers lie apart."
    ),
    Measure("delta_eo_0", "ΔEO, y = 0", "number", "The same among people whose true class is 0."),
    Measure("delta_eo_1", "ΔEO, y = 1", "number", "The same among people whose true class is 1."),
)
POSITIVE = Measure(
    "positive_rate",
    "Positive answers",
    "share",
    "A model that gives nearly nobody a positive answer is fair and useless.",
)
TITLES = {
    "mlp": "MLP",
    "alfr": "ALFR",
    "laftr": "LAFTR",
    "cfair": "CFAIR",
    "mlp+eidig": "MLP+EIDIG",
    "mlp+iifr": "MLP+IIFR",
    "alfr+iifr": "ALFR+IIFR",
    "laftr+iifr": "LAFTR+IIFR",
    "cfair+iifr": "CFAIR+IIFR",
    "counterfactual": "Counterfactual (ours)",
    "blind": "Blind (control)",
}
TRAINED = (
    "Every repeat trains all models anew, with other first weights and on another division of the"
    " people; Adult keeps its official test set. No training sees the test people of its own"
    " repeat. Settings were chosen on the validation people of several divisions: on Adult none of"
    " them is ever tested, on COMPAS and German Credit most are test people of another repeat, so"
    " there the choice is not wholly independent of the test."
)
DEAD = (
    "A run that gives all its training people the same answer is rejected and begun again with"
    " other first weights, five times at most; such a run has perfect fairness scores. A run that"
    " gives fewer than one test person in a hundred the rarer answer is left out, and counted."
)
CHOSEN = (
    "λ and the adversaries' speed were chosen on validation people (benchmarks/choose_settings.py):"
    " the highest IFR_p that costs no more accuracy than the paper gave up and keeps half of the"
    " positive answers. MLP+IIFR on Adult has λ = 1; the paper does not state its λ."
)
CODINGS = (
    "Adult's coding gives back the paper's example pair (cosine 0.802, printed 0.808). COMPAS"
    " people of another named race have no counterpart and are not compared. The paper's 30 columns"
    " of German Credit are not identified, and its 81.5 % is not reached with our 61. In those one"
    " person in a hundred has another above ε = 0.8 in a batch of 30, so that IIFR has next to"
    " nothing to act on there; in Adult it is one in five, in COMPAS nine in ten."
)


def _is_majority(result: Plain) -> bool:
    """Whether a run that is not quite dead gives hardly anybody the rarer answer."""
    rate = result.get("positive_rate")
    return rate is not None and min(rate, 1 - rate) < NEARLY_NOBODY


def cell(plan: Plan, outcome: Outcome, place: Cell, subject: Subject, jobs: Iterable[Job]) -> Cell:
    """The cell with one value a repeat; it tells of runs that were rejected, and of repeats where
    every attempt was.
    """
    ids = [job.id for job in jobs]
    results = [outcome.results[name] for name in ids if name in outcome.results]
    deciding = {
        name: result for name, result in outcome.results.items() if not _is_majority(result)
    }
    filled = collected(plan, replace(outcome, results=deciding), place, subject, ids, place.measure)
    if not results or any(name in outcome.failures for name in ids):
        return filled
    if undecided := sum(_is_majority(result) for result in results):
        return replace(
            filled,
            failed=(
                f"left out: {undecided} of {len(results)} repeats gave nearly everybody the same"
                " answer"
            ),
        )
    collapsed = [result for result in results if result["collapsed"]]
    if collapsed:
        attempts, where = (
            collapsed[0]["rejected"],
            ("all" if len(collapsed) == len(results) else f"{len(collapsed)} of {len(results)}"),
        )
        return replace(
            filled,
            failed=(
                f"collapsed: one answer for everybody in all {attempts} attempts, in {where}"
                " repeats"
            ),
        )
    rejected = sum(result["rejected"] for result in results)
    runs = "dead run was" if rejected == 1 else "dead runs were"
    return (
        replace(filled, failed=f"{rejected} {runs} rejected and begun again")
        if rejected
        else filled
    )


class Models(Experiment):
    """A table with a column for each model. They differ in what they show; the jobs are the
    same.
    """

    table_name: str
    measures: Sequence[Measure]
    subjects: Sequence[Subject] = SUBJECTS
    notes: Sequence[str] = ()
    quick = "Fewer epochs (Adult 2, COMPAS 5), and EIDIG searches from 50 people."

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        subjects = plan.subjects(self.subjects)
        return [
            [
                job
                for subject in subjects
                for model in MODELS
                for job in _repeats(plan, subject, model)
            ]
        ]

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        cells = [
            cell(
                plan,
                outcome,
                self._place(subject, model, measure),
                subject,
                _repeats(plan, subject, model),
            )
            for measure in self.measures
            for subject in self.subjects
            for model in MODELS
        ]
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=self.measures,
            cells=cells,
            notes=(*self.notes, TRAINED, CHOSEN, DEAD, CODINGS),
            citation=paper.IIFR,
            titles=TITLES,
            centre="median",
        )

    def _place(self, subject: Subject, model: str, measure: Measure) -> Cell:
        printed = None
        if measure is not POSITIVE:
            printed = paper.figure(
                self.table_name, subject.dataset, subject.sensitive, model, measure.key
            )
        return Cell(subject.dataset, subject.sensitive, model, "", measure.key, paper=printed)


def _repeats(plan: Plan, subject: Subject, model: str) -> list[Job]:
    return [fitting(plan, subject, model, repeat) for repeat in range(plan.repeats)]


class Table4(Models):
    """How accurate, and how fair to each person?"""

    name = table_name = "iifr-table4"
    title = "IIFR, Table 4: accuracy and individual fairness"
    about = (
        "The paper's networks, learning rates, batches and epochs (its table 3); AdaDelta; ε = 0.8,"
        " τ = 0.001."
    )
    measures = (ACCURACY, *INDIVIDUAL)
    notes = (
        (
            "Individual fairness is that of a person and their counterparts: the whole attribute"
            " changes, all its columns together. German Credit has four counterparts a person."
        ),
        (
            "MLP+EIDIG trains the MLP on with a tenth of the IDIs that EIDIG finds around real"
            " people, each once, labelled by the vote of five classifiers."
        ),
        (
            "The counterfactual repair of German Credit trains the plain network on for 30 epochs."
            " With 5, as many as the paper trains for, a first choice of λ gave nearly everybody"
            " the same answer; the epochs, and the rule for λ that it keeps half of the positive"
            " answers, were then chosen on validation people."
        ),
    )


class Table6(Models):
    """Who within each group fares worse?"""

    name = table_name = "iifr-table6"
    title = "IIFR, Table 6: individual fairness within the groups of Adult"
    about = "The models of Table 4, and the individual fairness rates of men and of women."
    subjects = (ADULT,)
    measures = (
        Measure("ifr_b_male", "IFR_b of men", "share"),
        Measure("ifr_p_male", "IFR_p of men", "share"),
        Measure("ifr_b_female", "IFR_b of women", "share"),
        Measure("ifr_p_female", "IFR_p of women", "share"),
    )
    notes = (
        (
            "The paper prints the same four numbers for ALFR+IIFR and CFAIR+IIFR, and for ALFR and"
            " CFAIR rates in both groups that lie below its rate of all people: at least one of its"
            " tables 4 and 6 is of another run."
        ),
    )


class Table7(Models):
    """How fair between groups?"""

    name = table_name = "iifr-table7"
    title = "IIFR, Table 7: group fairness"
    about = (
        "The models of Table 4: the difference between two groups, for the five ages of German"
        " Credit the standard deviation over them."
    )
    measures = (*GROUPS, POSITIVE)
    notes = (
        (
            "The paper does not print the rate of positive answers, without which group fairness"
            " cannot be judged."
        ),
    )


class Table8(Experiment):
    """What does the threshold of similarity do?"""

    name = "iifr-table8"
    title = "IIFR, Table 8: the threshold ε of similarity"
    about = (
        "MLP+IIFR on Adult with λ = 1: a pair of people counts as similar when their cosine is"
        " above ε."
    )
    quick = "2 epochs, and three thresholds."
    measures = (ACCURACY, *INDIVIDUAL, *GROUPS, POSITIVE)
    subject, model = ADULT, "mlp+iifr"

    def thresholds(self, plan: Plan) -> tuple[float, ...]:
        return (0.75, 0.80, 0.85, 0.90, 0.95, 1.00) if plan.is_full else (0.80, 0.90, 1.00)

    def _repeats(self, plan: Plan, threshold: float) -> list[Job]:
        return [
            fitting(plan, self.subject, self.model, repeat, threshold=threshold)
            for repeat in range(plan.repeats)
        ]

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [
            [job for threshold in self.thresholds(plan) for job in self._repeats(plan, threshold)]
        ]

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        cells = [
            cell(
                plan,
                outcome,
                self._place(threshold, measure),
                self.subject,
                self._repeats(plan, threshold),
            )
            for measure in self.measures
            for threshold in self.thresholds(plan)
        ]
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=self.measures,
            cells=cells,
            notes=(
                (
                    "The paper's row ε = 0.75 is a network that gives everybody the same answer:"
                    " 75.8 % is the share of the commoner class, and all differences are 0. Such"
                    " runs are rejected here. What is left of them at 0.75 is hardly better: see"
                    " the rate of positive answers."
                ),
                "At ε = 1 no pair counts: it is the plain network.",
                TRAINED,
                DEAD,
            ),
            citation=paper.IIFR,
            titles=TITLES,
            centre="median",
            rows="variant",
        )

    def _place(self, threshold: float, measure: Measure) -> Cell:
        dataset, sensitive, printed = self.subject.dataset, self.subject.sensitive, None
        if measure is not POSITIVE:
            printed = paper.figure(
                self.name, dataset, sensitive, self.model, measure.key, phase=f"{threshold:.2f}"
            )
        return Cell(
            dataset, sensitive, self.model, f"ε {threshold:.2f}", measure.key, paper=printed
        )
