"""Repairs: each turns a network and its data into a network that treats people more alike, and
`prove` shows what it did.
"""

from fairprobe.repairs.adversarial import ALFR, CFAIR, LAFTR, Adversarial
from fairprobe.repairs.base import Repair
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.catalogue import (
    REPAIRS,
    alfr,
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
from fairprobe.repairs.proof import Measured, Proof, prove
from fairprobe.repairs.retrain import Retrain

__all__ = [
    "ALFR",
    "CFAIR",
    "IIFR",
    "LAFTR",
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
    "repair_names",
    "retrain",
]
