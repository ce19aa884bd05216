"""The report of a certificate that stands for itself."""

from __future__ import annotations

from fairprobe.documents import CertificateDocument
from fairprobe.present import certificate_sentences, fill_template
from fairprobe.versions import versions


def certificate_page(found: CertificateDocument, title: str, *, whole: bool = True) -> str:
    """One self-contained page, or its section alone."""
    name = "certificate_page.html.j2" if whole else "certificate.html.j2"
    return fill_template(
        name,
        {
            "certificate": found,
            "title": title,
            "say_certificate": certificate_sentences,
            "versions": versions(),
        },
    )
