"""One submission on a machine with a GPU (bench/submissions gpu): the answer beside the reference at every
listed shape.

Takes a folder that assay.problem.describe wrote, and a tolerance, absolute and relative, as KernelBench
compares. Prints `right`, or `wrong` and where.
"""

import inspect
import sys
import tomllib
from pathlib import Path

import torch


def extent(value, dims):
    return value if isinstance(value, int) else eval(value.replace("/", "//"), {"__builtins__": {}}, dims)


def load(path):
    from assay.problem.runtime.common import load_file

    return load_file(path, "loaded_" + path.stem)


def compare(contract, call, adapter, dims, tolerance):
    """The largest excess over the tolerance at one shape, or None."""
    from assay.problem.contract_file import DTYPES

    dtypes = {short: getattr(torch, name) for name, short in DTYPES.items() if hasattr(torch, name)}
    scalars = {name: scalar.get("value", (scalar.get("values") or [0])[0])
               for name, scalar in contract.get("scalars", {}).items()}
    values = {**dims, **scalars, **call.make(dims, 7)}
    on_gpu = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name,
              value in values.items()}
    parameters = list(inspect.signature(call.run).parameters)
    try:
        expected = call.run(*[values[name] for name in parameters])
    except ValueError:  # a reference in Triton runs on the GPU only
        expected = call.run(*[on_gpu[name] for name in parameters])
    outputs = {name: tensor for name, tensor in contract["tensors"].items() if tensor.get("role") == "out"}
    if contract["kernel"]["returns"] == "void":
        for name, tensor in outputs.items():
            shape = [extent(item, dims) for item in tensor["shape"]]
            on_gpu[name] = torch.zeros(shape, dtype=dtypes[tensor["dtype"]], device="cuda")
    result = adapter.run(*[on_gpu[name] for name in contract["kernel"]["args"]])
    torch.cuda.synchronize()
    found = [on_gpu[name] for name in outputs] if result is None else result
    for name, want, have in zip(outputs, expected, found):
        want, have = want.cuda().double(), have.double()
        if want.shape != have.shape:
            return f"{name} has the shape {tuple(have.shape)} instead of {tuple(want.shape)}"
        if not torch.allclose(have, want, rtol=tolerance, atol=tolerance):
            return f"{name} differs by {(have - want).abs().max().item():.3g}"
    return None


def main():
    folder, tolerance = Path(sys.argv[1]), float(sys.argv[2])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    contract = tomllib.loads((folder / "contract.toml").read_text())
    constants = {name: dim for name, dim in contract.get("dims", {}).items() if isinstance(dim, int)}
    call, adapter = load(folder / "problem/call.py"), load(folder / "adapter.py")
    for shape in contract.get("shapes") or [{}]:
        dims = {**constants, **shape}
        wrong = compare(contract, call, adapter, dims, tolerance)
        if wrong:
            print(f"wrong at {dims}: {wrong}")
            return
    print("right")


main()
