"""The campaign: tries to lose what was written, to hang or crash fairprobe, and to make it execute
what it is given. `python -m campaign` runs it and prints one table.
"""
