// The data of the inserted Insts (Inst::extra), and the handlers that read it: one set for each instruction
// set of the host (lanes/*.cpp).
#pragma once

#include "shadow/cells.h"
#include "shadow/errors.h"
#include "shadow/flow.h"
#include "vgpu/access.h"
#include "vgpu/code.h"

namespace assay::shadow {

using vgpu::Handler;
using vgpu::PlaneOffset;

inline constexpr uint32_t kMaxParts = 4, kMaxMoves = 16;

// An element of a register, in every lane.
struct Element {
  PlaneOffset plane = 0;
  PlaneOffset errors = 0;  // its RegisterErrors; 0: it is not followed
  uint16_t lane_bytes = 0;
  uint8_t offset = 0;  // of its first byte in a lane
  Number number = Number::F32;
};

// Every form starts with this.
struct Form {
  uint32_t insts = 0;  // of the PTX instruction itself: they follow ours, and ours runs them
  Site* site = nullptr;
};

struct ArithmeticForm : Form {
  uint32_t parts = 1, sources = 1;
  bool clamps = false, clamps_below = false, rounds = false;
  bool adds = false;          // cancellation and stagnation are asked for
  bool adds_product = false;  // … to a third operand
  Element to[kMaxParts], from[kMaxParts][3];
};

struct MoveForm : Form {
  struct One {
    PlaneOffset to, from, other;  // RegisterErrors; 0: none. `other`: where the predicate is false
    uint8_t act;
  };
  uint32_t count = 0;
  One moves[kMaxMoves];
  PlaneOffset predicate = 0;  // Select
  uint32_t predicate_flip = 0;
  bool forgets = false;               // Other: something is lost whatever the operands
  PlaneOffset value = 0, result = 0;  // Bits, Cut: planes
  bool wide = false;                  // Bits: the upper half of a double, not a float
};

enum class Comparison : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Other };

struct CompareForm : Form {
  Element a, b;
  Comparison comparison = Comparison::Other;
  uint8_t rounding = 0;  // ToInteger, Integral: 'n', 'z', 'm', 'p'
};

struct AccessForm : Form {
  Cells* cells = nullptr;
  uint32_t displacement = 1;  // of the Inst that accesses, from ours
  uint32_t count = 0;         // elements that are followed, over all registers
  struct One {
    PlaneOffset errors;
    uint8_t last;    // byte of the access it ends at
    uint8_t number;  // a Number, as far as it is known
    uint8_t size;    // its bytes, for its bits
  };
  One elements[32];
  mutable uintptr_t low = 1, high = 0;  // the allocation seen last: addresses [low, high) lie at + delta
  mutable ptrdiff_t delta = 0;
  mutable uint64_t generation = 0;  // of memory, then
  bool is_store = false;
};

enum class AtomicKind : uint8_t { Add, Exchange, Swap };

struct AtomicForm : AccessForm {
  AtomicKind kind = AtomicKind::Add;
  uint32_t parts = 0, part_bytes = 0;
  Element operand[8];              // in memory order
  Element compared;                // cas
  PlaneOffset old_errors[8] = {};  // of the destination's elements; 0: not followed
  PlaneOffset old_plane = 0;       // cas: where the old value comes back
  bool flushes = false;            // f32 in global memory
};

struct ShuffleForm : Form {
  PlaneOffset lane = 0, limits = 0;
  uint8_t mode = 0;  // 'u', 'd', 'b', 'i'
  uint32_t count = 0;
  struct One {
    PlaneOffset to, from, kept;
  };
  One moves[4];  // `kept`: a copy made before, where source and destination are one register
};

// A fragment of a matrix: its registers and their elements' errors.
struct Fragment {
  uint32_t registers = 0, parts = 1;  // parts: elements of a register
  Number number = Number::F32;
  PlaneOffset plane[16] = {};
  PlaneOffset errors[16][4] = {};
};

struct ProductForm : Form {
  uint32_t m = 0, n = 0, k = 0;
  bool wmma = false;
  ptx::Type a_type = ptx::Type::F16, b_type = ptx::Type::F16, c_type = ptx::Type::F32,
            d_type = ptx::Type::F32;
  Fragment a, b, c, d;
  uint16_t* index[4] = {};  // of A, B, C, D: where each register's part of each lane goes in the matrix
  Fragment kept;            // C as it was, where D overwrites it; else C itself
};

struct MatrixForm : AccessForm {  // ldmatrix, stmatrix, wmma.load, wmma.store
  bool plain = true, transposed = false, columns = false;
  uint32_t m = 0, n = 0, k = 0;
  ptx::Type type = ptx::Type::F16;
  uint8_t matrix = 0;  // 0 A, 1 B, 2 C
  Fragment fragment;
  bool has_stride = false;
  PlaneOffset stride = 0;
};

struct Handlers {
  Handler arithmetic[static_cast<size_t>(Op::Count_)];
  Handler move, select, merge, bits, cut, forget;
  Handler compare, integral, to_integer;
  Handler load, store, atomic, async_copy, bulk_copy, unseen;
  Handler keep_shuffled, shuffle;
  Handler keep_product, product;
  Handler load_matrix, store_matrix;
  void (*fill_index)(ProductForm& form);  // ProductForm::index, once its fragments are known
};
const Handlers& handlers();

}  // namespace assay::shadow
