"""The dashboard: runs, findings, what if, jobs, in a browser on this machine (`fairprobe serve`).

Nothing is imported here: the worker of a job must not wait for the pages.
"""
