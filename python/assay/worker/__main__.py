"""Started by `assay check`, with the worker's sockets inherited; see assay/worker/__init__.py."""
import os
import sys

from assay.worker.library import Library


def main() -> int:
    path = os.environ.get("ASSAY_WORKER_LIBRARY")
    if not path:
        sys.exit("assay.worker is started by assay, not by hand")
    sys.path.remove(os.getcwd()) if os.getcwd() in sys.path else None
    library = Library(path)
    from assay.worker.subject import Subject  # imports torch, where there is one

    subject = Subject(library)
    return library.run(subject.load, subject.call)


if __name__ == "__main__":
    sys.exit(main())
