"""An earlier name for `formats.in_words`."""

from fairprobe.present.formats import in_words as told

__all__ = ["told"]
