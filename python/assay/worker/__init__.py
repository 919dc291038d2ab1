"""The process in which a Python subject runs: `python -m assay.worker`, started by `assay check`.

The interpreter runs on the virtual GPU (the command preloads its runtime) and loads the worker's C++ part as a
library. That part speaks with the command, allocates and fills buffers, orders work on streams, confines the
process and collects what the device saw; it calls back into Python for two things only: to load the subject's
file, and to call its function.

    library.py   the C++ part, by ctypes
    tensors.py   tensors over its buffers; what the function returned, verified and copied
    subject.py   the subject's file and function; what it raised, in words
    watch.py     what the subject must not do: read the reference, replace functions, look at its checker

What this process reports can only count against the subject: code under test runs in it, and could report anything.
"""
