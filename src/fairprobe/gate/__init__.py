"""The gate: a policy's limits held against the numbers of a run. One evaluation serves the command
line, Python and pytest.
"""

from fairprobe.gate.evaluate import baseline_of, check
from fairprobe.gate.junit import junit
from fairprobe.gate.markdown import markdown
from fairprobe.gate.more import sampler, sampler_of
from fairprobe.gate.policy import Policy, read_policy
from fairprobe.gate.ruling import GateResult, Ruling
from fairprobe.gate.sarif import sarif

__all__ = [
    "GateResult",
    "Policy",
    "Ruling",
    "baseline_of",
    "check",
    "junit",
    "markdown",
    "read_policy",
    "sampler",
    "sampler_of",
    "sarif",
]
