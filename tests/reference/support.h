// References of small contracts, and inputs for them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "contract/support.h"
#include "reference/reference.h"

namespace assay::reference::testing {

using namespace contract::testing;

inline Reference reference_of(const Contract& contract) {
  Result<Reference> reference = Reference::make(contract);
  if (!reference) ADD_FAILURE() << reference.error().text();
  return reference ? std::move(*reference) : Reference();
}

inline std::shared_ptr<const Tensor> share(Tensor tensor) {
  return std::make_shared<const Tensor>(std::move(tensor));
}

inline std::shared_ptr<const Tensor> normal(DType dtype, std::vector<int64_t> extents, unsigned seed,
                                            double scale = 1, double mean = 0) {
  Tensor tensor = Tensor::zeros(dtype, std::move(extents));
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(mean, scale);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.store(i, draw(random));
  return share(std::move(tensor));
}

inline std::shared_ptr<const Tensor> uniform_integers(DType dtype, std::vector<int64_t> extents, int64_t low,
                                                      int64_t high, unsigned seed) {
  Tensor tensor = Tensor::zeros(dtype, std::move(extents));
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> draw(low, high);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.store_int(i, draw(random));
  return share(std::move(tensor));
}

inline Expectation expected(const Contract& contract, const Bindings& bindings, const std::string& output,
                            const BudgetOptions& options = {}) {
  Result<Expectation> result = reference_of(contract).expect_all(bindings, output, options);
  if (!result) {
    ADD_FAILURE() << result.error().text();
    return {};
  }
  return std::move(*result);
}

}  // namespace assay::reference::testing
