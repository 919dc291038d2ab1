// States of the model in which the calls of a candidate are examined one by one.
//
// The first steps of a small model show a kernel friendly inputs: sizes that are multiples of 32, activations near 1, short rows. A real
// model shows it others sooner or later: weights that have grown until softmaxes and gates saturate, channels that stand out, a stream so
// small that epsilon counts, padding, an activation that overflowed. Each of these is a state: a size, some steps of training with the
// tokens and the optimizer of a cell, and what has become of weights and batch then. One pass with trusted code gives the inputs of every
// call, which are those of a whole model and fit together.
//
// Only single calls are judged there, by the contract's own rounding budgets (examined_call.h): gradients of such states are no gradients
// of an earlier run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/model.h"
#include "train/transformer.h"

namespace assay::train {

struct ModelState {
  std::string_view name;          // never changes: reports name it
  std::string_view meaning;       // in a few words, for reports
  std::vector<ModelSizes> sizes;  // the first at which the contract accepts a call counts
  void (*grow)(const ModelSizes&, uint64_t seed, Weights<float>&) = nullptr;
  int steps = 0;              // of training before the batch whose calls are judged
  bool is_own_run = false;    // that of the cell itself: nothing is changed
  bool is_confident = false;  // half of the targets are what the model predicts
  bool overflows = false;     // one input of each call holds NaN and infinities
};

// In the order in which they are tried: that of the run itself first.
std::vector<ModelState> model_states(const ModelSizes& sizes);

}  // namespace assay::train
