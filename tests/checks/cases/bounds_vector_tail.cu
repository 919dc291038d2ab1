// Vectors of four where the count is no multiple of four: the last reaches past the end.
// wrong: out-of-bounds here
// right:
__global__ void scale(float* x, int n, bool wrong) {
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (wrong ? i < n : i + 3 < n) {
    float4 v = *(float4*)(x + i);  // here
    v.x *= 2, v.y *= 2, v.z *= 2, v.w *= 2;
    *(float4*)(x + i) = v;
  } else if (!wrong) {
    for (int k = i; k < n; ++k) x[k] *= 2;
  }
}
void run(bool wrong) {
  int* x = device_array(1022);
  scale<<<4, 64>>>((float*)x, 1022, wrong);
  finish(x);
}
