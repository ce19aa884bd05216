"""The Python that repeats an audit of scores."""

from __future__ import annotations

from fairprobe.documents import ScoresDocument

OWN = "...  # your own, as it was"


def python(document: ScoresDocument) -> str:
    """The lines that repeat the audit in the run folder."""
    origin, given = document.data.origin, document.tolerance
    data = OWN
    if origin is not None and origin.path:
        data = (
            f"fp.datasets.open_table({origin.path!r}, label={origin.label!r},"
            f" sensitive={document.sensitive!r}, target='amount', domain='domain.toml',"
            f" name={document.dataset!r})"
        )
    value = 100 * given.value if given.unit == "percent" else given.value
    written = f"{value:g}" + {"amount": "", "percent": "%", "sd": "sd"}[given.unit]
    tolerance = written if given.unit == "amount" else repr(written)
    model = OWN
    if document.model.origin is not None:
        model = f"fp.load_model({document.model.origin.source!r}, data)"
    elif document.model.trained_here:
        model = "fp.models.ScoreModel.of_network(fp.networks.load('model', data.domain))"
    lines = (
        "import fairprobe as fp",
        "",
        f"data = {data}",
        f"model = {model}",
        "audit = fp.audit_scores(",
        f"    data, model, {document.sensitive!r}, tolerance={tolerance},",
        f"    method={document.generation.method!r}, people={document.generation.people!r},",
        f"    samples={document.dm_rs.samples!r}, seed={document.seed!r},",
        ")",
        "audit.report('report-again.html')",
    )
    return "\n".join(lines)
