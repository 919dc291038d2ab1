// Small random calls of kernels (random_kernels.h): one or two cases of the launch relation, one or two launches each.
//
//   Choices choices(bytes, size);
//   RandomCall call = random_call(choices);   // call.cases[0].launches[0].body …
#pragma once

#include "fuzz/random_kernels.h"

namespace assay::fuzz {

class CallMaker {
 public:
  explicit CallMaker(Choices& choices) : choices_(choices) {}

  RandomCall make() {
    call_.large = choices_.one_in(3);
    const bool fours = choices_.one_in(4);
    call_.dims = fmt::format("n = {{ min = {}, max = {}{} }}\nm = {{ min = 1, max = {} }}", fours ? 4 : 1,
                             call_.large ? "3000000"
                             : fours     ? "12"
                                         : "9",
                             fours ? ", multiple_of = 4" : "", call_.large ? "700" : "4");
    tensors();
    if (choices_.one_in(6)) {
      using When = RandomCase::When;
      const bool multiples = choices_.one_in(2) && !fours;
      add_case(multiples ? When::MultipleOf4 : When::AtLeast5);
      add_case(multiples ? When::NoMultipleOf4 : When::AtMost4);
    } else {
      add_case(RandomCase::When::Always);
    }
    return std::move(call_);
  }

 private:
  void tensors() {
    extent_ = static_cast<Extent>(choices_.below(4));
    static constexpr const char* kShapes[] = {"\"n\"", "\"n\", \"m\"", "\"n + m\"", "\"4 * n\""};
    const char* shape = kShapes[static_cast<size_t>(extent_)];
    call_.output = choices_.one_in(2);
    call_.y = fmt::format("dtype = \"i32\"\nshape = [{}]\n{}", shape,
                          call_.output ? "role = \"out\"" : "role = \"inout\"\nvalues = \"integers(0, 3)\"");
    call_.x = fmt::format("dtype = \"i32\"\nshape = [{}]\nvalues = \"index(n)\"", shape);
  }

  void add_case(RandomCase::When when) {
    RandomCase one;
    one.when = when;
    if (call_.output && choices_.one_in(8)) one.filled = choices_.one_in(2) ? "4 * n" : "4 * n - 4";
    const uint32_t launches = choices_.one_in(4) ? 2 : 1;
    const uint32_t covering = call_.output && !choices_.one_in(3) ? choices_.below(launches) : launches;
    for (uint32_t i = 0; i < launches; ++i)
      one.launches.push_back(KernelMaker(choices_, extent_, call_.large).make(i == covering));
    call_.cases.push_back(std::move(one));
  }

  Choices& choices_;
  RandomCall call_;
  Extent extent_ = Extent::N;
};

inline RandomCall random_call(Choices& choices) {
  return CallMaker(choices).make();
}

}  // namespace assay::fuzz
