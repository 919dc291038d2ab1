// assay: expect fail uninitialized, stale-state, data-race, wrong-result
// assay: class G
// The tiles' states start from what the workspace held.
#include <cstdint>

namespace {

constexpr int kTile = 128;

// Decoupled look-back: a tile publishes its own sum at once, then looks back over its
// predecessors until it meets one that already knows everything before it.
enum State : unsigned { kNothing = 0, kSum = 1, kPrefix = 2 };

struct Tile {
  unsigned state;
  int sum;     // valid from kSum on
  int prefix;  // valid at kPrefix
};

__device__ int sum_before(Tile* tiles, int tile) {
  int sum = 0;
  for (int back = tile - 1; back >= 0; --back) {
    unsigned state;
    do {
      state = atomicAdd(&tiles[back].state, 0u);
    } while (state == kNothing);
    __threadfence();
    if (state == kPrefix) return sum + __ldcg(&tiles[back].prefix);
    sum += __ldcg(&tiles[back].sum);
  }
  return sum;
}

__global__ void scan(const int* x, int* y, unsigned* next_tile, Tile* tiles, int n) {
  __shared__ int warps[kTile / 32];
  __shared__ int tile, before;
  if (threadIdx.x == 0) tile = atomicAdd(next_tile, 1u);  // in order of starting: the ones before will finish
  __syncthreads();
  const int i = tile * kTile + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int v = i < n ? x[i] : 0;
  for (int step = 1; step < 32; step *= 2) {
    const int left = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += left;
  }
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  for (int w = 0; w < warp; ++w) v += warps[w];
  if (threadIdx.x == kTile - 1) {
    tiles[tile].sum = v;
    __threadfence();
    atomicExch(&tiles[tile].state, kSum);
    before = sum_before(tiles, tile);
    tiles[tile].prefix = before + v;
    __threadfence();
    atomicExch(&tiles[tile].state, kPrefix);
  }
  __syncthreads();
  if (i < n) y[i] = before + v;
}

}  // namespace

extern "C" void prefix_sum(const int* x, int* y, void* workspace, int n, cudaStream_t stream) {
  const int tiles = (n + kTile - 1) / kTile;
  unsigned* next_tile = static_cast<unsigned*>(workspace);
  cudaMemsetAsync(workspace, 0, 16, stream);
  scan<<<tiles, kTile, 0, stream>>>(x, y, next_tile, reinterpret_cast<Tile*>(next_tile + 4), n);
}
