// std::visit with one lambda for each alternative: std::visit(Overload{[](const A&) {}, [](const B&) {}}, value).
#pragma once

namespace assay {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace assay
