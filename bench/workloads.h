// The workloads of bench/engine, as both hosts (CUDA and OpenCL) see them.
//
// Every kernel has the signature (a, b, out, n, k). A workload says how to launch it, what to put
// in a and b, how many items it works on (an item is one inner iteration of one thread), and
// whether out is right. So a host program only moves buffers and measures time.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace bench {

using Bytes = std::vector<unsigned char>;

struct Launch {
  unsigned grid[2];
  unsigned block[2];
  size_t a_bytes, b_bytes, out_bytes;
  double items;
};

struct Workload {
  std::string_view name;
  Launch (*launch)(int n, int k);
  void (*fill)(Bytes& a, Bytes& b);
  bool (*right)(const Bytes& a, const Bytes& b, const Bytes& out, int n, int k);
};

template <typename T>
T* as(Bytes& bytes) {
  return reinterpret_cast<T*>(bytes.data());
}
template <typename T>
const T* as(const Bytes& bytes) {
  return reinterpret_cast<const T*>(bytes.data());
}

// A small, fixed sequence; values in [-1, 1) that are multiples of 1/128, hence exact in bf16.
inline float value(size_t i) {
  const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u;
  return static_cast<float>(static_cast<int>(mixed >> 24) - 128) / 128.0f;
}

inline float from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float f;
  std::memcpy(&f, &wide, sizeof f);
  return f;
}

inline uint16_t to_bf16(float exact) {
  uint32_t wide;
  std::memcpy(&wide, &exact, sizeof wide);
  return static_cast<uint16_t>(wide >> 16);
}

inline bool close(double got, double want, double scale) {
  return std::abs(got - want) <= 1e-5 * (std::abs(want) + scale);
}

inline void fill_f32(Bytes& a, Bytes& b) {
  for (size_t i = 0; i < a.size() / 4; ++i) as<float>(a)[i] = value(i);
  for (size_t i = 0; i < b.size() / 4; ++i) as<float>(b)[i] = value(i + 12345);
}

inline void fill_bf16(Bytes& a, Bytes& b) {
  for (size_t i = 0; i < a.size() / 2; ++i) as<uint16_t>(a)[i] = to_bf16(value(i));
  for (size_t i = 0; i < b.size() / 2; ++i) as<uint16_t>(b)[i] = to_bf16(value(i + 12345));
}

inline void fill_u32(Bytes& a, Bytes&) {
  for (size_t i = 0; i < a.size() / 4; ++i) as<uint32_t>(a)[i] = static_cast<uint32_t>(i) * 2654435761u;
}

// A product is checked on 997 entries spread over it.
template <typename T, float (*load)(T)>
bool product_right(const Bytes& a, const Bytes& b, const Bytes& out, int n, int k) {
  for (size_t sample = 0; sample < 997; ++sample) {
    const size_t at = sample * 2654435761u % (size_t(n) * n), row = at / n, col = at % n;
    double want = 0;
    for (int i = 0; i < k; ++i)
      want += double(load(as<T>(a)[row * k + i])) * load(as<T>(b)[size_t(i) * n + col]);
    if (!close(as<float>(out)[at], want, std::sqrt(k))) return false;
  }
  return true;
}
inline float same(float x) {
  return x;
}

inline bool reduction_right(const Bytes& a, const Bytes&, const Bytes& out, int n, int k) {
  const int chunk = 256 * k;
  for (int block = 0; block < n / chunk; ++block) {
    double want = 0;
    for (int i = 0; i < chunk; ++i) want += as<float>(a)[size_t(block) * chunk + i];
    if (!close(as<float>(out)[block], want, std::sqrt(chunk))) return false;
  }
  return true;
}

inline bool softmax_right(const Bytes& a, const Bytes&, const Bytes& out, int n, int k) {
  for (int row = 0; row < n; row += 7) {
    const float* x = as<float>(a) + size_t(row) * k;
    double top = x[0], sum = 0;
    for (int i = 1; i < k; ++i) top = std::fmax(top, x[i]);
    for (int i = 0; i < k; ++i) sum += std::exp(x[i] - top);
    for (int i = 0; i < k; ++i) {
      if (!close(as<float>(out)[size_t(row) * k + i], std::exp(x[i] - top) / sum, 0)) return false;
    }
  }
  return true;
}

inline bool transpose_right(const Bytes& a, const Bytes&, const Bytes& out, int n, int) {
  for (int row = 0; row < n; ++row) {
    for (int col = 0; col < n; ++col) {
      if (as<float>(out)[size_t(col) * n + row] != as<float>(a)[size_t(row) * n + col]) return false;
    }
  }
  return true;
}

inline bool histogram_right(const Bytes& a, const Bytes&, const Bytes& out, int n, int) {
  std::vector<uint32_t> want(256);
  for (int i = 0; i < n; ++i) ++want[as<uint32_t>(a)[i] >> 24];
  return std::memcmp(want.data(), out.data(), 1024) == 0;
}

inline bool channel_sum_right(const Bytes& a, const Bytes&, const Bytes& out, int n, int k) {
  for (int channel = 0; channel < k; ++channel) {
    double want = 0;
    for (int i = 0; i < n; ++i) want += as<float>(a)[size_t(i) * k + channel];
    if (!close(as<float>(out)[channel], want, std::sqrt(n))) return false;
  }
  return true;
}

inline bool block_scan_right(const Bytes& a, const Bytes&, const Bytes& out, int n, int) {
  double want = 0;
  for (int i = 0; i < n; ++i) {
    want = (i % 1024 == 0 ? 0 : want) + as<float>(a)[i];
    if (!close(as<float>(out)[i], want, 32)) return false;
  }
  return true;
}

inline Launch product_launch(int n, int k) {
  const unsigned tiles = unsigned(n) / 16;
  return {{tiles, tiles},    {16, 16},          size_t(n) * k * 4,
          size_t(n) * k * 4, size_t(n) * n * 4, double(n) * n * k};
}
inline Launch mma_launch(int n, int k) {  // a warp for each 16 x 8 tile of the result, four warps a block
  return {{unsigned(n) / 32, unsigned(n) / 16},
          {32, 4},
          size_t(n) * k * 2,
          size_t(n) * k * 2,
          size_t(n) * n * 4,
          double(n) * n * k};
}
inline Launch reduction_launch(int n, int k) {
  const unsigned blocks = unsigned(n / (256 * k));
  return {{blocks, 1}, {256, 1}, size_t(n) * 4, 4, blocks * 4, double(n)};
}
inline Launch softmax_launch(int n, int k) {
  return {{unsigned(n), 1}, {128, 1}, size_t(n) * k * 4, 4, size_t(n) * k * 4, double(n) * k};
}
inline Launch transpose_launch(int n, int) {
  return {
      {unsigned(n) / 32, unsigned(n) / 32}, {32, 8}, size_t(n) * n * 4, 4, size_t(n) * n * 4, double(n) * n};
}
inline Launch histogram_launch(int n, int k) {
  return {{unsigned(n / (256 * k)), 1}, {256, 1}, size_t(n) * 4, 4, 1024, double(n)};
}

inline Launch channel_sum_launch(int n, int k) {
  return {{unsigned(k), 1}, {256, 1}, size_t(n) * k * 4, 4, size_t(k) * 4, double(n) * k};
}
inline Launch block_scan_launch(int n, int) {
  return {{unsigned(n) / 1024, 1}, {1024, 1}, size_t(n) * 4, 4, size_t(n) * 4, double(n)};
}

// clang-format off
inline constexpr Workload kWorkloads[] = {
    {"matmul_naive", product_launch,   fill_f32,  product_right<float, same>},
    {"matmul_tiled", product_launch,   fill_f32,  product_right<float, same>},
    {"reduction",    reduction_launch, fill_f32,  reduction_right},
    {"softmax",      softmax_launch,   fill_f32,  softmax_right},
    {"transpose",    transpose_launch, fill_f32,  transpose_right},
    {"histogram",    histogram_launch, fill_u32,  histogram_right},
    {"channel_sum",  channel_sum_launch, fill_f32,  channel_sum_right},
    {"block_scan",   block_scan_launch, fill_f32,  block_scan_right},
    {"matmul_mma",   mma_launch,       fill_bf16, product_right<uint16_t, from_bf16>},
};
// clang-format on

// PROGRAM WORKLOAD N K REPEATS
struct Request {
  const Workload* workload;
  int n, k, repeats;
  Launch launch;
  Bytes a, b, out;
};

inline Request parse(int argc, char** argv) {
  if (argc == 5) {
    for (const Workload& w : kWorkloads) {
      if (w.name != argv[1]) continue;
      Request r{&w, std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), {}, {}, {}, {}};
      r.launch = w.launch(r.n, r.k);
      r.a.resize(r.launch.a_bytes);
      r.b.resize(r.launch.b_bytes);
      r.out.resize(r.launch.out_bytes);
      w.fill(r.a, r.b);
      return r;
    }
  }
  std::fprintf(stderr, "usage: %s WORKLOAD N K REPEATS\n", argv[0]);
  std::exit(2);
}

inline int report(const Request& r, double seconds) {
  const bool right = r.workload->right(r.a, r.b, r.out, r.n, r.k);
  std::printf(
      "{\"workload\": \"%s\", \"n\": %d, \"k\": %d, \"items\": %.0f, \"seconds\": %.9f, \"right\": %s}\n",
      r.workload->name.data(), r.n, r.k, r.launch.items, seconds, right ? "true" : "false");
  return right ? 0 : 1;
}

}  // namespace bench
