"""Runs kernels from cubin files through the CUDA driver API, with nothing but ctypes."""

import ctypes

import numpy as np


class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.buffers = {}

    def call(self, name, *args):
        code = getattr(self.cuda, name)(*args)
        if code != 0:
            raise RuntimeError(f"{name}: CUDA error {code}")

    def load(self, cubin):
        with open(cubin, "rb") as f:
            image = f.read()
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def buffer(self, key, size):
        """A device buffer, kept and grown between calls."""
        held = self.buffers.get(key)
        if held is None or held[1] < size:
            pointer = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1 << 20)))
            held = (pointer, max(size, 1 << 20))
            self.buffers[key] = held
        return held[0]

    def run(self, function, inputs, output, count, grid, block):
        """inputs: arrays; output: an array to fill. The kernel takes (out, inputs..., count)."""
        out = self.buffer("out", output.nbytes)
        self.call("cuMemsetD8_v2", out, ctypes.c_ubyte(0xCD), ctypes.c_size_t(output.nbytes))
        pointers = [out]
        for i, array in enumerate(inputs):
            array = np.ascontiguousarray(array)
            pointer = self.buffer(i, array.nbytes)
            self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
            pointers.append(pointer)
        values = [ctypes.c_uint64(p.value) for p in pointers] + [ctypes.c_uint32(count)]
        params = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, params, None)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", output.ctypes.data_as(ctypes.c_void_p), out, ctypes.c_size_t(output.nbytes))
        return output
