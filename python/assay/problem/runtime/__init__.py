"""What generated folders call: problems and submissions as their benchmarks call them.

`FOLDER/assay_adapter.py` and `FOLDER/problem/call.py` are a few lines that say which files, names and sizes there
are; the rest is here. Modules are imported in two processes: the answer's, on the virtual GPU, and the
reference's, on the CPU.
"""
