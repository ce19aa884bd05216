"""The schema of a table: attributes, bounds, rules, and who counts as a counterpart."""

from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.domain import Domain, Outside

__all__ = ["Attribute", "Constraint", "Domain", "Outside"]
