"""Repairs: each turns a network and its data into a network that treats people more alike, or any
model into one that answers through it; `prove` shows what they did.
"""

from fairprobe.documents.repair import Measured, Proof
from fairprobe.repairs.abstain import Abstain
from fairprobe.repairs.adversarial import ALFR, CFAIR, LAFTR, Adversarial
from fairprobe.repairs.average import Average
from fairprobe.repairs.base import Repair
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.catalogue import (
    POST_HOC,
    REPAIRS,
    alfr,
    any_repair_named,
    blind,
    cfair,
    counterfactual,
    iifr,
    laftr,
    repair_named,
    repair_names,
    retrain,
)
from fairprobe.repairs.counterfactual import Counterfactual
from fairprobe.repairs.estimators import (
    ALFRClassifier,
    BlindClassifier,
    CFAIRClassifier,
    CounterfactualClassifier,
    IIFRClassifier,
    LAFTRClassifier,
    RetrainClassifier,
)
from fairprobe.repairs.iifr import IIFR
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.proof import prove
from fairprobe.repairs.retrain import Retrain
from fairprobe.repairs.thresholds import Thresholds
from fairprobe.repairs.wrappers import (
    AbstainingClassifier,
    AverageClassifier,
    ThresholdsClassifier,
    repaired_function,
)

__all__ = [
    "ALFR",
    "CFAIR",
    "IIFR",
    "LAFTR",
    "POST_HOC",
    "REPAIRS",
    "ALFRClassifier",
    "Abstain",
    "AbstainingClassifier",
    "Adversarial",
    "Average",
    "AverageClassifier",
    "Blind",
    "BlindClassifier",
    "CFAIRClassifier",
    "Counterfactual",
    "CounterfactualClassifier",
    "IIFRClassifier",
    "LAFTRClassifier",
    "Measured",
    "PostHoc",
    "Proof",
    "Repair",
    "Retrain",
    "RetrainClassifier",
    "Thresholds",
    "ThresholdsClassifier",
    "alfr",
    "any_repair_named",
    "blind",
    "cfair",
    "counterfactual",
    "iifr",
    "laftr",
    "prove",
    "repair_named",
    "repair_names",
    "repaired_function",
    "retrain",
]
