// The matrix products of cuBLAS. The library itself is machine code, which the virtual GPU cannot run; torch
// computes these in Python instead, in the order of the handle's stream. Other functions of cuBLAS are left
// undefined, and the build names the first that a source calls.
#pragma once

#include "assay/light/cuda.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
};

namespace assay {

/// One matrix in column-major order, or as many of them as the product has, `stride` elements apart.
struct BlasMatrix {
  const void* data;
  c10::ScalarType type;
  int64_t leading, stride;
};

inline bool blas_type(cudaDataType type, c10::ScalarType& out) {
  switch (type) {
    case CUDA_R_16F:
      out = c10::ScalarType::Half;
      return true;
    case CUDA_R_16BF:
      out = c10::ScalarType::BFloat16;
      return true;
    case CUDA_R_32F:
      out = c10::ScalarType::Float;
      return true;
    case CUDA_R_64F:
      out = c10::ScalarType::Double;
      return true;
    default:
      return false;
  }
}

/// alpha or beta: of type `type`, on the host or on the device.
inline double blas_number(cublasHandle_t handle, const void* number, c10::ScalarType type) {
  unsigned char bytes[8] = {};
  const size_t size = c10::elementSize(type);
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    check_cuda(cudaMemcpy(bytes, number, size, cudaMemcpyDeviceToHost));
  } else {
    memcpy(bytes, number, size);
  }
  uint16_t half;
  float single;
  double both;
  memcpy(&half, bytes, sizeof(half));
  memcpy(&single, bytes, sizeof(single));
  memcpy(&both, bytes, sizeof(both));
  return type == c10::ScalarType::Double ? both
         : type == c10::ScalarType::Half ? float_of_half(half)
                                         : single;
}

inline cublasStatus_t blas_gemm(cublasHandle_t handle, cublasOperation_t a_operation,
                                cublasOperation_t b_operation, int64_t m, int64_t n, int64_t k,
                                const void* alpha, BlasMatrix a, BlasMatrix b, const void* beta, BlasMatrix c,
                                int64_t count, c10::ScalarType number_type) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  Call call("gemm");
  call(reinterpret_cast<int64_t>(handle->stream))(a_operation != CUBLAS_OP_N)(b_operation !=
                                                                              CUBLAS_OP_N)(m)(n)(k)(count);
  call(blas_number(handle, alpha, number_type))(blas_number(handle, beta, number_type));
  for (const BlasMatrix& matrix : {a, b, c}) {
    call(reinterpret_cast<int64_t>(matrix.data))(matrix.type)(matrix.leading)(matrix.stride);
  }
  call.result<void>();
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace assay

#define ASSAY_CUBLAS extern "C" __attribute__((weak)) cublasStatus_t
ASSAY_CUBLAS cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle->math_mode;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_CUBLAS cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
extern "C" __attribute__((weak)) const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "an error of cuBLAS";
}

#define ASSAY_GEMM(LETTER, TYPE, NAME)                                                                       \
  ASSAY_CUBLAS cublas##LETTER##gemm_v2(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,    \
                                       int m, int n, int k, const TYPE* alpha, const TYPE* a, int lda,       \
                                       const TYPE* b, int ldb, const TYPE* beta, TYPE* c, int ldc) {         \
    constexpr auto type = c10::ScalarType::NAME;                                                             \
    return assay::blas_gemm(handle, ta, tb, m, n, k, alpha, {a, type, lda, 0}, {b, type, ldb, 0}, beta,      \
                            {c, type, ldc, 0}, 1, type);                                                     \
  }                                                                                                          \
  ASSAY_CUBLAS cublas##LETTER##gemmStridedBatched(                                                           \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,                \
      const TYPE* alpha, const TYPE* a, int lda, long long sa, const TYPE* b, int ldb, long long sb,         \
      const TYPE* beta, TYPE* c, int ldc, long long sc, int count) {                                         \
    constexpr auto type = c10::ScalarType::NAME;                                                             \
    return assay::blas_gemm(handle, ta, tb, m, n, k, alpha, {a, type, lda, sa}, {b, type, ldb, sb}, beta,    \
                            {c, type, ldc, sc}, count, type);                                                \
  }                                                                                                          \
  ASSAY_CUBLAS cublas##LETTER##gemv_v2(cublasHandle_t handle, cublasOperation_t ta, int m, int n,            \
                                       const TYPE* alpha, const TYPE* a, int lda, const TYPE* x, int incx,   \
                                       const TYPE* beta, TYPE* y, int incy) {                                \
    constexpr auto type = c10::ScalarType::NAME;                                                             \
    const int rows = ta == CUBLAS_OP_N ? m : n, columns = ta == CUBLAS_OP_N ? n : m;                         \
    return assay::blas_gemm(handle, CUBLAS_OP_N, ta == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, 1, rows,     \
                            columns, alpha, {x, type, incx, 0}, {a, type, lda, 0}, beta, {y, type, incy, 0}, \
                            1, type);                                                                        \
  }
ASSAY_GEMM(S, float, Float)
ASSAY_GEMM(D, double, Double)
#undef ASSAY_GEMM

#if defined(ASSAY_HALF_OF_CUDA)
ASSAY_CUBLAS cublasHgemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                         int k, const __half* alpha, const __half* a, int lda, const __half* b, int ldb,
                         const __half* beta, __half* c, int ldc) {
  constexpr auto type = c10::ScalarType::Half;
  return assay::blas_gemm(handle, ta, tb, m, n, k, alpha, {a, type, lda, 0}, {b, type, ldb, 0}, beta,
                          {c, type, ldc, 0}, 1, type);
}
#endif

ASSAY_CUBLAS cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                        int m, int n, int k, const void* alpha, const void* a,
                                        cudaDataType a_type, int lda, long long sa, const void* b,
                                        cudaDataType b_type, int ldb, long long sb, const void* beta, void* c,
                                        cudaDataType c_type, int ldc, long long sc, int count,
                                        cublasComputeType_t compute, cublasGemmAlgo_t) {
  assay::BlasMatrix ma{a, {}, lda, sa}, mb{b, {}, ldb, sb}, mc{c, {}, ldc, sc};
  if (!assay::blas_type(a_type, ma.type) || !assay::blas_type(b_type, mb.type) ||
      !assay::blas_type(c_type, mc.type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto number =
      compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC   ? c10::ScalarType::Half
      : compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC ? c10::ScalarType::Double
                                                                                : c10::ScalarType::Float;
  return assay::blas_gemm(handle, ta, tb, m, n, k, alpha, ma, mb, beta, mc, count, number);
}
ASSAY_CUBLAS cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                          int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                          const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                          cudaDataType c_type, int ldc, cublasComputeType_t compute,
                          cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                                    beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
#undef ASSAY_CUBLAS

namespace at::cuda {
/// A handle of this extension on the current stream.
inline cublasHandle_t getCurrentCUDABlasHandle() {
  static cublasContext handle;
  handle.stream = getCurrentCUDAStream();
  return &handle;
}
}  // namespace at::cuda

#define TORCH_CUDABLAS_CHECK(EXPRESSION)                                                                    \
  do {                                                                                                      \
    const cublasStatus_t assay_status = (EXPRESSION);                                                       \
    TORCH_CHECK(assay_status == CUBLAS_STATUS_SUCCESS, "CUDA error: ", cublasGetStatusString(assay_status), \
                " when calling `" #EXPRESSION "`");                                                         \
  } while (0)
