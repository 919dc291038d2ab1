// Twins of kernels.cuh: the same algorithm, the same work-group shape. OpenCL has no tensor cores,
// so matmul_mma is the tiled product on the same bf16 inputs.

kernel void matmul_naive(global const float* a, global const float* b, global float* out, int n, int k) {
  const int col = get_global_id(0);
  const int row = get_global_id(1);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
  out[row * n + col] = sum;
}

kernel void matmul_tiled(global const float* a, global const float* b, global float* out, int n, int k) {
  local float tile_a[16][16];
  local float tile_b[16][16];
  const int x = get_local_id(0), y = get_local_id(1);
  const int col = get_global_id(0), row = get_global_id(1);
  float sum = 0;
  for (int from = 0; from < k; from += 16) {
    tile_a[y][x] = a[row * k + from + x];
    tile_b[y][x] = b[(from + y) * n + col];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[row * n + col] = sum;
}

kernel void reduction(global const float* a, global const float* b, global float* out, int n, int k) {
  local float partial[256];
  const int t = get_local_id(0);
  const int block = get_group_id(0);
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[(block * k + i) * 256 + t];
  partial[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int h = 128; h > 0; h /= 2) {
    if (t < h) partial[t] += partial[t + h];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) out[block] = partial[0];
}

kernel void softmax(global const float* a, global const float* b, global float* out, int n, int k) {
  local float shared[128];
  const int t = get_local_id(0);
  global const float* x = a + (size_t)get_group_id(0) * k;
  global float* y = out + (size_t)get_group_id(0) * k;

  float top = -INFINITY;
  for (int i = t; i < k; i += 128) top = fmax(top, x[i]);
  shared[t] = top;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int h = 64; h > 0; h /= 2) {
    if (t < h) shared[t] = fmax(shared[t], shared[t + h]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  top = shared[0];
  barrier(CLK_LOCAL_MEM_FENCE);

  float sum = 0;
  for (int i = t; i < k; i += 128) sum += exp(x[i] - top);
  shared[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int h = 64; h > 0; h /= 2) {
    if (t < h) shared[t] += shared[t + h];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float scale = 1.0f / shared[0];
  for (int i = t; i < k; i += 128) y[i] = exp(x[i] - top) * scale;
}

kernel void transpose(global const float* a, global const float* b, global float* out, int n, int k) {
  local float tile[32][33];
  const int x = get_local_id(0);
  const int bx = get_group_id(0) * 32, by = get_group_id(1) * 32;
  for (int y = get_local_id(1); y < 32; y += 8) tile[y][x] = a[(size_t)(by + y) * n + bx + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int y = get_local_id(1); y < 32; y += 8) out[(size_t)(bx + y) * n + by + x] = tile[x][y];
}

kernel void histogram(global const uint* a, global const uint* b, global uint* out, int n, int k) {
  local uint bins[256];
  const int t = get_local_id(0);
  const int block = get_group_id(0);
  bins[t] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < k; ++i) atomic_inc(&bins[a[(block * k + i) * 256 + t] >> 24]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&out[t], bins[t]);
}

kernel void channel_sum(global const float* a, global const float* b, global float* out, int n, int k) {
  local float partial[256];
  const int t = get_local_id(0);
  float sum = 0;
  for (int i = t; i < n; i += 256) sum += a[(size_t)i * k + get_group_id(0)];
  partial[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = 128; width > 0; width /= 2) {
    if (t < width) partial[t] += partial[t + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) out[get_group_id(0)] = partial[0];
}

kernel void block_scan(global const float* a, global const float* b, global float* out, int n, int k) {
  local float sums[1024];
  const int t = get_local_id(0);
  const size_t at = (size_t)get_group_id(0) * 1024 + t;
  sums[t] = a[at];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int ahead = 1; ahead < 1024; ahead *= 2) {
    const float before = t >= ahead ? sums[t - ahead] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[t] += before;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[at] = sums[t];
}

kernel void matmul_mma(global const ushort* a, global const ushort* b, global float* out, int n, int k) {
  local float tile_a[16][16];
  local float tile_b[16][16];
  const int x = get_local_id(0), y = get_local_id(1);
  const int col = get_global_id(0), row = get_global_id(1);
  float sum = 0;
  for (int from = 0; from < k; from += 16) {
    tile_a[y][x] = as_float((uint)a[row * k + from + x] << 16);
    tile_b[y][x] = as_float((uint)b[(from + y) * n + col] << 16);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[row * n + col] = sum;
}
