// Every file in handlers/ is compiled once for each build of the engine: host instruction set
// (AVX2, AVX-512) × plain or watched. The build is a namespace, so the copies do not collide.
// Handler files use no std containers and no other inline library code with state: an inline
// function compiled for AVX-512 must never be the copy that an AVX2 host runs.
#pragma once

#ifndef ASSAY_BUILD
#define ASSAY_BUILD avx2_plain
#define ASSAY_WATCHED 0
#endif

#include <cstdint>
#include <cstring>
#include <span>

#include "vgpu/lowering.h"
#include "vgpu/warp.h"
#include "vgpu/watch.h"

namespace assay::vgpu::ASSAY_BUILD {

inline constexpr bool kWatched = ASSAY_WATCHED != 0;

// The tables of the families; engine.cpp joins them.
std::span<const LowerRow> control_rows();     // control.cpp: bra, call, ret, exit, bar, …
std::span<const LowerRow> integer_rows();     // integer.cpp
std::span<const LowerRow> logic_rows();       // logic.cpp: and/or/shift/prmt/bfe/…, setp/selp/mov
std::span<const LowerRow> float_rows();       // float.cpp: f32, f64
std::span<const LowerRow> half_rows();        // half.cpp: f16, bf16 and packed
std::span<const LowerRow> convert_rows();     // convert.cpp: cvt
std::span<const LowerRow> video_rows();       // video.cpp
std::span<const LowerRow> matrix_rows();      // matrix.cpp: mma, wmma
std::span<const LowerRow> memory_rows();      // memory.cpp: ld, st
std::span<const LowerRow> space_rows();       // space.cpp: cvta, mapa, fences, hints
std::span<const LowerRow> atomic_rows();      // atomic.cpp: atom, red
std::span<const LowerRow> collective_rows();  // collective.cpp: shfl, vote, match, redux, …
std::span<const LowerRow> async_rows();       // async.cpp: cp.async, mbarrier, bulk copies
std::span<const LowerRow> tile_rows();        // tile.cpp: ldmatrix, stmatrix, movmatrix, wmma.load/store

// Handlers that decoding itself needs.
Handler join_handler();
Handler end_handler();
Handler unsupported_handler();
Handler not_predicate_handler();
Handler clock_handler(bool wide);  // move.cpp
Handler warp_barrier_handler();    // collective.cpp: bar.warp.sync

}  // namespace assay::vgpu::ASSAY_BUILD
