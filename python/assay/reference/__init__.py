"""The exact value of a PyTorch reference, and how far rounding alone may move a correct kernel from it.

`exact` runs the problem's own code in float64 on the CPU. `budget` carries beside every value a hard bound
and a variance, operator by operator (`arithmetic`, `functions` and the `rules_*` modules). `server` answers
requests of `assay check`. docs/numerics-torch.md explains the rules and what they were tested with.
"""
