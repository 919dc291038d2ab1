"""Where the parts of Assay are that are not Python: the program, its libraries, its headers.

The package is found in three places, and the program beside it each time: in a wheel (`assay/_program/bin`),
in a build tree or an installed prefix (`bin` beside the folder `python`), and in a source tree
(`build/release/bin`). The variable ASSAY_PROGRAM names another program; its libraries are those of its own
tree.
"""

import os
import pathlib
from typing import List

_PACKAGE = pathlib.Path(__file__).absolute().parent


def _candidates() -> List[pathlib.Path]:
    beside = _PACKAGE.parent.parent
    return [
        _PACKAGE / "_program" / "bin" / "assay",
        beside / "bin" / "assay",
        beside / "build" / "release" / "bin" / "assay",
    ]


def program() -> str:
    """The path of the program `assay`."""
    given = os.environ.get("ASSAY_PROGRAM")
    if given:
        if os.access(given, os.X_OK):
            return os.path.abspath(given)
        raise FileNotFoundError("ASSAY_PROGRAM names %s, which is not a program" % given)
    for path in _candidates():
        if os.access(path, os.X_OK):
            return str(path)
    raise FileNotFoundError(
        "the program `assay` was not found; build it with `./test` or `pip install .`, "
        "or name it in ASSAY_PROGRAM"
    )


def beside_program(name: str) -> str:
    """The path of another program of the same build: beside_program("assayd")."""
    path = pathlib.Path(program()).resolve().parent / name
    if not os.access(path, os.X_OK):
        raise FileNotFoundError("%s is missing next to %s; rebuild Assay" % (name, program()))
    return str(path)


def library(name: str) -> str:
    """The path of one of Assay's shared libraries: library("libcudart.so.13")."""
    path = pathlib.Path(program()).resolve().parent.parent / "lib" / name
    if not path.exists():
        raise FileNotFoundError("%s is missing next to %s; rebuild Assay" % (name, program()))
    return str(path)


def include_folder() -> str:
    """The folder of the C++ headers that extensions are compiled with on the virtual GPU."""
    return str(_PACKAGE / "virtual" / "include")


def package_folder() -> str:
    """The folder that contains the package `assay`, for PYTHONPATH."""
    return str(_PACKAGE.parent)
