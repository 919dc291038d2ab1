"""Assay tests GPU kernels written for PyTorch and Triton on a virtual GPU: no GPU is needed."""
