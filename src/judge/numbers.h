// Numbers as text: with as many digits as it takes to tell them apart, and no more.
//
//   number_text(DType::bf16, 0.333984375)    "0.334": no other bf16 number rounds to it
//   element_text(tensor, 7)                  the same of an element; integers as integers, all 64 bits
//   sentence(text_of({.dtype = DType::f32, .stored = 16843912, .exact = 16843908, .limit = 1.25}))
//       "is 16843912, should be 16843908 (error 4, 3.2 times the budget of 1.25)"
//
// Every message, table and page that shows a stored number beside an exact one takes its text from here.
#pragma once

#include <optional>
#include <string>

#include "contract/tensor.h"
#include "finding/evidence.h"

namespace assay::judge {

// The fewest digits from which `dtype` gets the same number back.
std::string number_text(contract::DType dtype, double x);
std::string integer_text(contract::DType dtype, int64_t bits);  // as load_int has them
std::string element_text(const contract::Tensor& tensor, int64_t element);

// A result and what it should be.
struct Compared {
  contract::DType dtype = contract::DType::f32;
  double stored = 0, exact = 0;
  std::optional<int64_t> stored_integer, exact_integer;  // of integers; as load_int has them
  std::optional<double> limit;                           // of the error; 0: nothing may be rounded here
};

evidence::ComparedText text_of(const Compared& compared);

}  // namespace assay::judge
