"""Work in other processes: on this machine (`local`), or on a Ray cluster (`cluster`)."""
