"""torch.compile on the virtual GPU.

What Inductor generates are Triton kernels, which assay.virtual.triton takes care of. Here Inductor is told to compile in
this process, to start kernels through Triton's launcher (its own reads machine code from files), and to ask Triton for
times, which are not measured on the virtual GPU: max-autotune runs every candidate once and takes the first.
"""

import os
import sys

# By variable, because Inductor reads them when it is imported, which is long after torch. By attribute of its
# configuration where it has been imported already.
_SETTINGS = {
    "TORCHINDUCTOR_COMPILE_THREADS": ("compile_threads", 1),
    "TORCHINDUCTOR_AUTOTUNE_IN_SUBPROC": ("autotune_in_subproc", False),
    "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": ("use_static_cuda_launcher", False),
    "TORCHINDUCTOR_USE_EXPERIMENTAL_BENCHMARKER": ("use_experimental_benchmarker", False),
}


def install() -> None:
    """Prepares Inductor after the import of torch. A second call changes nothing."""
    for variable, (name, value) in _SETTINGS.items():
        os.environ[variable] = str(int(value))
        config = sys.modules.get("torch._inductor.config")
        if config is not None and hasattr(config, name):
            setattr(config, name, value)
