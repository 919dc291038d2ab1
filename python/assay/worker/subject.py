"""The subject: its file, its function, and what went wrong in it."""
import gc
import importlib
import importlib.util
import os
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from assay.worker import ahead, tensors, watch
from assay.worker.library import ALIASED_OUTPUT, Answer, Library

ADAPTERS = ("assay_adapter.py", "assay_subject.py")  # of assay.problem and assay.function_source


class Subject:
    def __init__(self, library: Library) -> None:
        self._library = library
        self._function: Optional[Callable[..., Any]] = None
        self._name = ""
        self._is_adapter = False  # the function is Assay's own, and calls what is checked
        self._folder = ""
        self._returns = True
        self._watch: Optional[watch.Watch] = None
        self._earlier: List[Any] = []  # what the last call returned: kept, so that its memory is not handed out again

    # ---- asked by the C++ part -------------------------------------------------------------------------------

    def load(self, setup: Answer) -> Answer:
        """Imports the file; the answer is empty, or says what went wrong."""
        self._name, self._returns = setup["function"], setup["returns_outputs"]
        self._is_adapter = os.path.basename(setup["file"]) in ADAPTERS
        self._folder = os.path.dirname(os.path.abspath(setup["file"]))
        _forget_settings()
        self._watch = watch.Watch(self._library, self._folder, setup["hidden"])
        sys.path.insert(0, self._folder)
        if ahead.import_triton(self._folder):
            _note_compiling(self._library)
        try:
            module = _import(setup["file"])
            if not hasattr(module, self._name):
                return _failure("there is no function `%s` in %s" % (self._name, os.path.basename(setup["file"])))
            self._function = getattr(module, self._name)
        except BaseException as error:
            return self._raised(error)
        self._watch.read_code()
        self._watch.compare()
        return {}

    def call(self, request: Answer) -> Answer:
        """Calls the function once, on the stream of the request."""
        try:
            with _on_stream(request["stream"]):
                arguments = [tensors.argument(given, request["stream"]) for given in request["arguments"]]
                self._library.watch_order()
                result = self._function(*arguments)
                self._watch.report_work_left(request["stream"], getattr(self._function, "__code__", None))
                if self._returns:
                    self._take(result, request)
        except tensors.Misfit as misfit:
            file, line = self._definition()
            return _failure(str(misfit), output=misfit.output, file=file, line=line)
        except BaseException as error:
            return self._raised(error)
        finally:
            gc.collect()  # tensors in cycles are no leak
            self._watch.compare()
            self._watch.report_threads()
        return {}

    # ---- what came back ----------------------------------------------------------------------------------------

    def _take(self, result: Any, request: Answer) -> None:
        outputs = request["outputs"]
        results = tensors.returned(result, outputs, "the function" if self._is_adapter else self._name)
        self._report_shared(results, request)
        kept = []
        for tensor, output in zip(results, outputs):
            if output["bytes"] > 0:
                whole = tensor.contiguous()
                self._library.copy(output["address"], whole.data_ptr(), output["bytes"], request["stream"])
                kept.append((tensor.untyped_storage(), whole))
        self._earlier = kept

    def _report_shared(self, results: List[Any], request: Answer) -> None:
        for tensor, output in zip(results, request["outputs"]):
            if tensor.numel() == 0:
                continue
            shared = _shared_input(tensor, request["arguments"])
            start = tensor.untyped_storage().data_ptr()
            if shared:
                text = "`%s` is returned in the memory of the input `%s`" % (output["name"], shared)
            elif any(storage.data_ptr() == start for storage, _ in self._earlier):
                text = "`%s` is returned in the memory of an earlier result, which it overwrites" % output["name"]
            else:
                continue
            self._library.report(ALIASED_OUTPUT, text, *self._definition())

    def _definition(self) -> Tuple[str, int]:
        """Where the function is defined; of an adapter, nobody wants to know."""
        code = getattr(self._function, "__code__", None)
        return (code.co_filename, code.co_firstlineno) if code and not self._is_adapter else ("", 0)

    def _raised(self, error: BaseException) -> Answer:
        file, line = self._place(error)
        missing = isinstance(error, ModuleNotFoundError) and error.name in ("torch", "triton")
        if missing:
            return _failure("%s has no %s: install it, or name an interpreter that has it in ASSAY_PYTHON"
                            % (sys.executable, error.name), unsupported=True)
        text = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
        text = text.replace(self._folder + os.sep, "")  # a compiler names files by their whole paths
        return _failure(text, file=file, line=line, unsupported=_is_unsupported(error))

    def _place(self, error: BaseException) -> Any:
        """The innermost line of the subject's own files."""
        if isinstance(error, SyntaxError) and error.filename:
            return error.filename, error.lineno or 0
        place = ("", 0)
        for frame in traceback.extract_tb(error.__traceback__):
            if watch.is_own(frame.filename):
                place = (frame.filename, frame.lineno or 0)
        return place


def _failure(text: str, output: str = "", file: str = "", line: int = 0, unsupported: bool = False) -> Answer:
    most = 4000  # characters: of a compiler's output the first lines matter
    return {"text": text[:most], "output": output, "file": file, "line": line, "unsupported": unsupported}


def _is_unsupported(error: Optional[BaseException]) -> bool:
    """Whether the virtual GPU cannot do what was asked, in which case the subject is not to blame."""
    while error is not None:
        kind = type(error)
        if kind.__name__ == "Unsupported" and kind.__module__.split(".")[0] == "assay":
            return True
        error = error.__cause__ or error.__context__
    return False


def _shared_input(tensor: Any, arguments: List[Dict[str, Any]]) -> str:
    storage = tensor.untyped_storage()
    first, last = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    for given in arguments:
        if given.get("is_input") and first < given["address"] + given["bytes"] and given["address"] < last:
            return given["name"]
    return ""


def _import(file: str) -> Any:
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _forget_settings() -> None:
    """The runtime and the loader have read these; compilers must not, and the subject has no use for them."""
    for name in list(os.environ):
        if name.startswith(("ASSAY_", "LD_", "PYTHONPATH")):
            del os.environ[name]


class _on_stream:
    """torch's current stream is the caller's; without torch nothing is done."""

    def __init__(self, stream: int) -> None:
        self._contexts: List[Any] = []
        if tensors.torch is not None:
            torch = tensors.torch
            self._contexts = [torch.no_grad()]
            if stream != 0:  # the default one is current already
                self._contexts.append(torch.cuda.stream(torch.cuda.ExternalStream(stream)))

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


def _note_compiling(library: Library) -> None:
    """Triton compiles within the process, which nobody could tell from a call that takes long."""
    knobs = getattr(sys.modules["triton"], "knobs", None)  # of older versions: none
    if knobs is None:
        return
    runtime = knobs.runtime
    before, after = runtime.jit_cache_hook, runtime.jit_post_compile_hook

    def begins(*args: Any, **named: Any) -> Any:
        library.building(True)
        return before(*args, **named) if before else None

    def ended(*args: Any, **named: Any) -> Any:
        library.building(False)
        return after(*args, **named) if after else None

    runtime.jit_cache_hook, runtime.jit_post_compile_hook = begins, ended
