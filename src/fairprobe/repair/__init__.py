"""Repairs: each turns a network and its data into a network that treats people more alike, and
`prove` shows what it did.
"""

from fairprobe.repair.adversarial import Adversarial
from fairprobe.repair.base import Repair
from fairprobe.repair.blind import Blind
from fairprobe.repair.catalogue import (
    REPAIRS,
    alfr,
    blind,
    cfair,
    counterfactual,
    iifr,
    laftr,
    repair_named,
    retrain,
)
from fairprobe.repair.counterfactual import Counterfactual
from fairprobe.repair.estimators import (
    ALFRClassifier,
    BlindClassifier,
    CFAIRClassifier,
    CounterfactualClassifier,
    IIFRClassifier,
    LAFTRClassifier,
    RetrainClassifier,
)
from fairprobe.repair.iifr import IIFR
from fairprobe.repair.retrain import Retrain
from fairprobe.repair.verdict import Measured, Proof, prove

__all__ = [
    "IIFR",
    "REPAIRS",
    "ALFRClassifier",
    "Adversarial",
    "Blind",
    "BlindClassifier",
    "CFAIRClassifier",
    "Counterfactual",
    "CounterfactualClassifier",
    "IIFRClassifier",
    "LAFTRClassifier",
    "Measured",
    "Proof",
    "Repair",
    "Retrain",
    "RetrainClassifier",
    "alfr",
    "blind",
    "cfair",
    "counterfactual",
    "iifr",
    "laftr",
    "prove",
    "repair_named",
    "retrain",
]
