"""fairprobe finds the people a neural network treats unfairly and the neurons that do it, repairs
the network, and proves what that did.

>>> import fairprobe as fp
>>> data = fp.datasets.adult()
>>> model = fp.networks.train(fp.networks.lfcn(data.domain), data)
>>> audit = fp.audit(data, model, sensitive="gender")
>>> audit.report("report.html")
>>> repaired = fp.repair(data, model, sensitive="gender")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe import (
        certificates,
        datasets,
        errors,
        gate,
        images,
        language,
        metrics,
        networks,
        repairs,
        scenes,
        search,
    )
    from fairprobe.certificates.certify import Certificate, certify
    from fairprobe.datasets import Dataset
    from fairprobe.findings import Findings
    from fairprobe.gate import Policy, check
    from fairprobe.images.audit import audit_images
    from fairprobe.judgement import Verdict, judge
    from fairprobe.language.names import audit_names
    from fairprobe.language.text import audit_text
    from fairprobe.models import Decision, Model, TorchModel, load_model
    from fairprobe.scenes.audit import audit_scenes
    from fairprobe.schema.attributes import Attribute, Constraint
    from fairprobe.schema.domain import Domain
    from fairprobe.schema.twins import Coupling
    from fairprobe.search import Budget, NeuronFair
    from fairprobe.search.neuron_bias import NeuronBias, neuron_bias
    from fairprobe.table.audit import Audit, audit, save
    from fairprobe.table.repair import repair

    __version__: str

# Where each public name lives; rooms are imported by their own name. All is imported when first
# used: `--help` need not wait for torch.
_ROOMS = (
    "certificates",
    "datasets",
    "errors",
    "gate",
    "images",
    "language",
    "metrics",
    "networks",
    "repairs",
    "scenes",
    "search",
)
_HOMES = {
    "Attribute": "schema",
    "Audit": "table.audit",
    "Budget": "search",
    "Certificate": "certificates.certify",
    "Constraint": "schema",
    "Coupling": "schema",
    "Dataset": "datasets",
    "Decision": "models",
    "Domain": "schema",
    "Findings": "findings",
    "Model": "models",
    "NeuronBias": "search.neuron_bias",
    "NeuronFair": "search",
    "Policy": "gate",
    "TorchModel": "models",
    "Verdict": "judgement",
    "audit": "table.audit",
    "audit_images": "images.audit",
    "audit_names": "language.names",
    "audit_scenes": "scenes.audit",
    "audit_text": "language.text",
    "certify": "certificates.certify",
    "check": "gate",
    "judge": "judgement",
    "load_model": "models",
    "neuron_bias": "search.neuron_bias",
    "repair": "table.repair",
    "save": "table.audit",
}

__all__ = [
    "Attribute",
    "Audit",
    "Budget",
    "Certificate",
    "Constraint",
    "Coupling",
    "Dataset",
    "Decision",
    "Domain",
    "Findings",
    "Model",
    "NeuronBias",
    "NeuronFair",
    "Policy",
    "TorchModel",
    "Verdict",
    "__version__",
    "audit",
    "audit_images",
    "audit_names",
    "audit_scenes",
    "audit_text",
    "certificates",
    "certify",
    "check",
    "datasets",
    "errors",
    "gate",
    "images",
    "judge",
    "language",
    "load_model",
    "metrics",
    "networks",
    "neuron_bias",
    "repair",
    "repairs",
    "save",
    "scenes",
    "search",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("fairprobe")
    if name in _ROOMS:
        return import_module(f"fairprobe.{name}")
    if name in _HOMES:
        return getattr(import_module(f"fairprobe.{_HOMES[name]}"), name)
    raise AttributeError(f"fairprobe has no attribute '{name}'. It has: {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return __all__
