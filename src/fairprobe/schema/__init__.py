"""Schema of a table: attributes, bounds, rules, inference from a table, and `domain.toml`."""

from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.coding import Coding, domain_of, rows_from_frame
from fairprobe.schema.domain import Domain, Outside
from fairprobe.schema.domain_file import Declared, read_domain, write_domain
from fairprobe.schema.twins import Coupling

__all__ = [
    "Attribute",
    "Coding",
    "Constraint",
    "Coupling",
    "Declared",
    "Domain",
    "Outside",
    "domain_of",
    "read_domain",
    "rows_from_frame",
    "write_domain",
]
