"""What a subject must not do beside computing: read the problem's reference, replace functions of others, look at
who runs it. What is seen is reported as a finding; nothing here can clear a subject.
"""
import ast
import inspect
import os
import sys
import threading
from typing import Any, Dict, Iterator, List, Tuple

from assay.worker.library import CALLS_REFERENCE, ENVIRONMENT_PROBE, FORBIDDEN_CALL, TAMPERING, Library

# Functions by which a benchmark judges or times an answer.
_JUDGING = {
    "builtins": ["__import__", "abs", "all", "any", "eval", "exec", "float", "getattr", "isinstance", "len", "max",
                 "min", "open", "sum"],
    "math": ["isclose", "isfinite", "isnan"],
    "time": ["monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "sleep", "time", "time_ns"],
    "torch": ["all", "allclose", "any", "cosine_similarity", "equal", "from_numpy", "isclose", "isfinite", "isnan",
              "manual_seed", "max", "mean", "norm", "rand", "randint", "randn", "tensor", "zeros"],
    "torch.Tensor": ["__eq__", "__sub__", "abs", "all", "allclose", "any", "clone", "copy_", "cpu", "double", "equal",
                     "float", "isclose", "isnan", "item", "max", "mean", "numpy", "to"],
    "torch.cuda": ["current_stream", "device_count", "empty_cache", "get_device_name", "is_available", "synchronize"],
    "torch.cuda.Event": ["elapsed_time", "query", "record", "synchronize"],
    "torch.cuda.Stream": ["synchronize", "wait_stream"],
    "torch.testing": ["assert_close"],
    "triton.testing": ["do_bench", "do_bench_cudagraph"],
    "assay.worker.library": ["Library"],
    "assay.worker.tensors": ["argument", "returned"],
}
# What shows who calls: of no use to a kernel.
_LOOKS_AT_CALLERS = {
    "sys": ["_current_frames", "_getframe", "_getframemodulename"],
    "inspect": ["currentframe", "getouterframes", "stack"],
    "traceback": ["extract_stack", "format_stack", "print_stack", "walk_stack"],
    "gc": ["get_objects", "get_referents", "get_referrers"],
}
_LOOKS_AT_SEEDS = {"torch": ["get_rng_state", "initial_seed"], "torch.cuda": ["get_rng_state", "initial_seed"]}
# What can order work on a stream of the answer's own with the caller's stream. An answer without any of these is known
# before it runs, which its work may make long; the others are judged by what the device saw (report_work_left).
_STREAM = "torch.cuda.Stream"
_JOINS = {"wait_stream", "wait_event", "synchronize", "wait", "query", "graph", "CUDAGraph", "make_graphed_callables"}
_CHECKER = "assay"
_ADAPTERS = "assay.problem.runtime"  # what calls an answer as its benchmark does


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_OWN = tuple(os.path.realpath(place) + os.sep for place in (sys.prefix, sys.base_prefix, _PACKAGE))


def is_own(file: str) -> bool:
    """Whether a file is the subject's: neither the interpreter's nor a package's nor ours."""
    path = os.path.realpath(file) if file and not file.startswith("<") else ""
    return bool(path) and not path.startswith(_NOT_OWN) and "site-packages" not in path


class Watch:
    def __init__(self, library: Library, folder: str, hidden: List[str]) -> None:
        self._library = library
        self._folder = folder
        self._hidden = [os.path.realpath(path) for path in hidden]
        self._reported: set = set()
        self._texts_read: set = set()
        self._before = dict(_functions())
        sys.addaudithook(self._audit)

    def compare(self) -> None:
        """Reports functions that are no longer those of the start."""
        for name, function in _functions():
            if self._before.get(name, function) is not function:
                file, line = self._line_that_sets(name.rsplit(".", 1)[1])
                self._report(TAMPERING, "the answer replaced `%s`" % name, file, line)

    def read_code(self) -> None:
        """Reports what the files of an answer show without being run: those in its folder. A function that assay.check
        was called with lies elsewhere, in the caller's own code."""
        for file in self._files():
            self._read(file)

    def report_threads(self) -> None:
        """Reports threads of the subject's that go on after its function has returned."""
        for thread in threading.enumerate():
            code = getattr(getattr(thread, "_target", None) or type(thread).run, "__code__", None)
            if code is not None and is_own(code.co_filename):
                self._report(FORBIDDEN_CALL, "the answer left a thread running (%s)" % code.co_name, code.co_filename,
                             code.co_firstlineno)

    def report_work_left(self, stream: int, code: Any) -> None:
        """Reports work on a stream of the subject's own that the caller's stream does not wait for."""
        left = self._library.work_left(stream)
        if left is None:
            return
        places = [(file, line) for file, line in left.frames if is_own(file)]
        if not places and code is not None:
            places = [(code.co_filename, code.co_firstlineno)]
        file, line = places[0] if places else ("", 0)
        what = "the kernel %s" % left.kernel if left.kernel else "work"
        self._report(FORBIDDEN_CALL, "the answer leaves %s on a side stream, and the caller's stream does not wait "
                     "for it: join them (wait_stream, an event, synchronize) before returning" % what, file, line)

    # ---- while it runs -------------------------------------------------------------------------------------------

    def _audit(self, event: str, arguments: Tuple[Any, ...]) -> None:
        if event == "exec":  # a module that is imported later, before it runs
            self._read(getattr(arguments[0], "co_filename", ""))
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if any(path == one or path.startswith(one + os.sep) for one in self._hidden):
            file, line = self._caller()
            if file:
                self._report(CALLS_REFERENCE, "the answer opens %s, a file of the problem" % os.path.basename(path),
                             file, line)

    def _caller(self) -> Tuple[str, int]:
        """The innermost line of the subject's own files on the stack."""
        frame = sys._getframe(2)
        while frame is not None:
            if is_own(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return "", 0

    # ---- its text ------------------------------------------------------------------------------------------------

    def _files(self) -> List[str]:
        """The subject's files, those of its folder first."""
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        return sorted((file for file in files if is_own(file)),
                      key=lambda file: (not file.startswith(self._folder + os.sep), file))

    def _read(self, file: str) -> None:
        if not file.startswith(self._folder + os.sep) or file in self._texts_read or not is_own(file):
            return
        self._texts_read.add(file)
        try:
            with open(file, encoding="utf-8") as text:
                nodes = list(ast.walk(ast.parse(text.read())))
        except (OSError, SyntaxError, ValueError):
            return
        for node in nodes:
            self._judge(node, file)
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == _STREAM and not attributes & _JOINS:
                self._report(FORBIDDEN_CALL, "the answer leaves work on a side stream: it never joins this "
                             "torch.cuda.Stream with the caller's (wait_stream)", file, node.lineno)

    def _judge(self, node: ast.AST, file: str) -> None:
        line = getattr(node, "lineno", 0)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            names = [alias.name for alias in node.names] + [module]
            if module.startswith(_ADAPTERS):
                return
            if any(name.split(".")[0].lower() == _CHECKER for name in names):
                self._report(ENVIRONMENT_PROBE, "the answer looks for the checker", file, line)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.lower() in (_CHECKER, "assay_settings"):
                self._report(ENVIRONMENT_PROBE, "the answer looks for the checker", file, line)
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else ""
            if node.attr in _LOOKS_AT_CALLERS.get(owner, []):
                self._report(ENVIRONMENT_PROBE, "the answer looks at its callers (%s.%s)" % (owner, node.attr), file, line)
            elif node.attr in _LOOKS_AT_SEEDS.get(owner, []):
                self._report(ENVIRONMENT_PROBE, "the answer looks at the seed (%s.%s)" % (owner, node.attr), file, line,
                             error=False)

    def _line_that_sets(self, attribute: str) -> Tuple[str, int]:
        for file in self._files():
            with open(file, encoding="utf-8", errors="replace") as text:
                for number, line in enumerate(text, 1):
                    if attribute in line and "=" in line or "setattr" in line and attribute in line:
                        return file, number
        return "", 0

    def _report(self, kind: int, text: str, file: str, line: int, error: bool = True) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._library.report(kind, text, file, line, error)


def _functions() -> Iterator[Tuple[str, Any]]:
    """The functions of the table that are loaded, by name."""
    for place, names in _JUDGING.items():
        owner = _find(place)
        if owner is None:
            continue
        for name in names:
            try:
                yield "%s.%s" % (place, name), inspect.getattr_static(owner, name)
            except AttributeError:
                continue


def _find(place: str) -> Any:
    """A module that is loaded, or a class of one."""
    if place in sys.modules:
        return sys.modules[place]
    parent, _, name = place.rpartition(".")
    return getattr(sys.modules[parent], name, None) if parent in sys.modules else None
