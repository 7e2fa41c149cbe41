"""`make bench`: the step of every method that has one against its bare network passes, in 15 minutes on one core.

The mutual-information family is measured on 8x8 images here (a step of theirs on 32x32 takes a minute on one core):
`python -m benchmarks.steps emi --pairs 2` is the 32x32 figure. SSD is measured over a cycle of six
steps (`benchmarks.ssd`); GDumb trains at the end of a task and offline has fine-tune's step. `benchmarks.evaluation`
measures the batch of an evaluation, `benchmarks.report` and `benchmarks.sweep` the rest of the program.
"""

from __future__ import annotations

import sys

from benchmarks import steps

LIGHT = ["finetune", "er", "agem", "mir", "gss", "aser", "scr", "pcr", "dvc"]
MODERN = ["er_ace", "derpp", "mkd", "gsa", "mose", "ccl_dc"]
HEAVY = ["ocm", "onpro", "emi"]

if __name__ == "__main__":
    if len(sys.argv) > 1:
        steps.main()
    else:
        steps.main([*LIGHT, "--pairs", "5"])
        steps.main([*MODERN, "--pairs", "3"])
        steps.main([*HEAVY, "--pairs", "5", "--size", "8"])
