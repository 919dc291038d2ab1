"""The interpreter that workers are forked from (src/subject/interpreter.h): imports torch and what else takes long
(ahead.py), and waits for requests.

It must neither touch the device nor load any code of the subject's: whatever it did, every worker would have done.
"""
import ctypes
import faulthandler
import gc
import json
import os
import resource
import signal
import socket
import sys
import time

CONTROL = 3  # descriptor of the socket to the command; in a worker, of the worker's own
FILES = {0: 3, 1: 4, 2: 5, 3: 1}  # descriptors of a worker: its socket, the memory file, events, the log
# Where compilers keep what they made: a folder each in the subject's build folder.
CACHES = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TORCH_EXTENSIONS_DIR": "extensions"}
MOST_WRITTEN = 64 << 20  # bytes of any file that a worker writes
PR_SET_PDEATHSIG = 1


def main() -> int:
    path = os.environ.get("ASSAY_WORKER_LIBRARY")
    if not path or len(sys.argv) != 3:
        sys.exit("assay.worker is started by assay, not by hand")
    command = int(sys.argv[1])
    for descriptor in (4, 5):  # a worker's: nothing that is imported may have them
        os.dup2(0, descriptor)
    from assay.worker import ahead, tensors  # imports torch, where there is one
    from assay.worker.library import Library
    from assay.worker.subject import Subject

    if tensors.torch is not None:
        # Operators run on the CPU, on small tensors: threads that wait for each other take longer than one alone.
        tensors.torch.set_num_threads(1)
    ahead.prepare(sys.argv[2])
    library = Library(path)
    gc.freeze()  # so that workers need not look through all of torch
    control = socket.socket(fileno=CONTROL)
    while True:
        request, files, _, _ = socket.recv_fds(control, 1 << 20, len(FILES))
        if not request:
            return 0
        process = _fork_away()
        if process != 0:
            control.send(b"%d" % process)
            for file in files:
                os.close(file)
            continue
        control.detach()
        subject = Subject(library)
        status = _become_worker(json.loads(request), files, command, library, subject)
        sys.stdout.flush()
        os._exit(status)


def _fork_away() -> int:
    """0 in the new process; in this one, its number. What lies between both ends at once, so that the command, which is
    the subreaper, becomes the parent."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        process = os.fork()
        if process == 0:
            os.close(read)
            os.close(write)
            return 0
        os.write(write, b"%d" % process)
        os._exit(0)
    os.close(write)
    os.waitpid(between, 0)
    number = os.read(read, 64)
    os.close(read)
    return int(number)


def _become_worker(request: dict, files: list, command: int, library: object, subject: object) -> int:
    while os.getppid() != command:
        time.sleep(0.001)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != command:
        return 126
    os.setsid()
    spare = [os.dup2(file, 64 + i) for i, file in enumerate(files)]
    for i, descriptor in FILES.items():
        os.dup2(spare[i], descriptor)
    os.dup2(1, 2)
    os.closerange(6, 4096)
    faulthandler.enable(all_threads=False)  # a crash inside a library is told with the subject's line
    for limit, most in ((resource.RLIMIT_FSIZE, MOST_WRITTEN), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    os.chdir(request["folder"])
    os.environ["HOME"] = os.environ["TMPDIR"] = request["folder"]
    for variable, name in CACHES.items():
        os.environ[variable] = os.path.join(request["build_folder"], name)
    sys.argv = [""]
    library.configure(request["settings"])
    return library.run(subject.load, subject.call)


if __name__ == "__main__":
    sys.exit(main())
