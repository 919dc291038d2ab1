"""A suite that is run with `pytest --assay`: a kernel in PTX, launched with ctypes. It needs neither torch
nor a compiler."""

import ctypes

import pytest

# fill(y, n): thread i stores i to y[i]. The line that findings name is that of `.loc`.
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.file 1 "fill_kernel.py"
.visible .entry fill(.param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p, %r2, %r1;
  @%p ret;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  .loc 1 42 5
  st.global.u32 [%rd3], %r2;
  ret;
}
"""


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


def call(function, *arguments):
    status = function(*arguments)
    assert status == 0, "%s returned %d" % (function.__name__, status)


def fill(allocated, n):
    """Fills n elements of a buffer with `allocated` elements, without waiting for it."""
    cuda = ctypes.CDLL("libcudart.so.13")
    library, kernel, buffer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call(cuda.cudaLibraryLoadData, ctypes.byref(library), PTX, None, None, 0, None, None, 0)
    call(cuda.cudaLibraryGetKernel, ctypes.byref(kernel), library, b"fill")
    call(cuda.cudaMalloc, ctypes.byref(buffer), ctypes.c_size_t(4 * allocated))
    size = ctypes.c_uint(n)
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), ctypes.addressof(size))
    call(cuda.cudaLaunchKernel, kernel, Dim3(1, 1, 1), Dim3(64, 1, 1), arguments, ctypes.c_size_t(0), None)


def test_right():
    fill(50, 50)


def test_out_of_bounds():
    fill(50, 51)


def test_right_again():
    fill(50, 50)


@pytest.mark.assay(allow=["out-of-bounds"])
def test_allowed():
    fill(50, 51)


@pytest.mark.assay(checks="races,sync")
def test_only_other_checks():
    fill(50, 51)


@pytest.mark.assay(checks="none")
def test_no_check():
    fill(50, 51)


@pytest.fixture
def wrong_buffer():
    fill(50, 52)


def test_with_wrong_setup(wrong_buffer):
    pass
