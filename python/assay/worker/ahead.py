"""What workers would each spend time on, done once before they are forked.

Only what touches no device and runs no line of the subject's code: its files are searched for words, not imported.
"""
import importlib
import itertools
import os
from typing import List

_MOST_READ = 1 << 20  # characters of a file that is searched
_MOST_FOLDERS = 50


def prepare(code: str) -> None:
    """For the subject in this file or folder."""
    if import_triton(code):
        _prepare_triton()
    if _mentions(code, "cpp_extension") or _mentions(code, "torch/extension.h"):
        # Not torch.utils.cpp_extension itself, which asks for the device: what it imports.
        _import("setuptools", "torch.utils._filelock", "assay.virtual.extension_calls", "assay.virtual.extension_operators")


def import_triton(code: str) -> bool:
    """Imports Triton where the file, or a file of the folder, mentions it and it is installed."""
    return _mentions(code, "triton") and _import("triton")


def _prepare_triton() -> None:
    """Triton reads all of its own files to name what it compiles, and imports a second language at the first launch."""
    _import("triton.compiler.code_generator", "triton.experimental.gluon")
    try:
        cache = importlib.import_module("triton.runtime.cache")
        cache.triton_key()  # remembers its result
    except Exception:  # of another version
        return


def _import(*names: str) -> bool:
    try:
        for name in names:
            importlib.import_module(name)
    except ImportError:
        return False
    return True


def _mentions(code: str, word: str) -> bool:
    return any(_has(file, word) for file in _files(code))


def _files(code: str) -> List[str]:
    if not os.path.isdir(code):
        return [code]
    folders = itertools.islice(os.walk(code), _MOST_FOLDERS)
    return [os.path.join(place, name) for place, _, names in folders for name in names if name.endswith(".py")]


def _has(file: str, word: str) -> bool:
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            return word in text.read(_MOST_READ)
    except OSError:  # hidden from the subject, and so from here
        return False
