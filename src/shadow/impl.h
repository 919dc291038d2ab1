// The state of a Shadow.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shadow/cells.h"
#include "shadow/errors.h"
#include "shadow/flow.h"
#include "shadow/forms.h"
#include "shadow/shadow.h"
#include "vgpu/memory.h"

namespace assay::shadow {

using LineKey = std::pair<std::string, int>;

// What an output's elements say together. By slot; `charged` counts fresh roundings as their lines'.
struct OutputSums {
  std::string name;
  uint64_t elements = 0, broken = 0;
  double largest = 0, largest_before = 0;    // absolute; relative, before the last rounding
  double fresh2 = 0, fresh_at[kSlots] = {};  // of the last rounding, by its line
  double before2 = 0,
         before[kSlots] = {};  // projections of the lines' errors on the error before the last rounding
  double whole2 = 0, charged[kSlots] = {};  // … on the whole error
  double size2[kSlots] = {};                // of the lines' parts
  double broken_at[kSlots] = {};
};

// A function's lines, the likeliest to lose precision first.
struct Group {
  Shadow::Impl* impl;
  std::vector<LineKey> lines;
};

struct Shadow::Impl {
  Cells cells;
  std::deque<Site> sites;
  std::deque<Group> groups;
  Group* group = nullptr;             // of the function that is being decoded
  std::map<LineKey, uint32_t> slots;  // 0: none left for it
  std::vector<OutputSums> outputs;
  const vgpu::Memory* memory = nullptr;

  // Of the function that is being decoded
  std::unique_ptr<Flow> current;
  std::map<std::pair<PlaneOffset, uint32_t>, PlaneOffset> errors;  // by plane and byte
  // … and of the instruction: our Inst, where it is, and whether it must know what follows.
  struct Pending {
    Form* form = nullptr;
    AccessForm* access = nullptr;
    uint32_t position = 0;
  };
  Pending pending;
  ShuffleForm* shuffle = nullptr;
  ProductForm* product = nullptr;
  MatrixForm* matrix = nullptr;

  OutputSums& output(const std::string& name);
};

}  // namespace assay::shadow
