// Shapes that fulfil the relations between dims that a contract states.
#pragma once

#include <optional>
#include <string_view>

#include "contract/contract.h"

namespace assay::contract {

// A legal shape near `shape`, whose dims each have a legal value: as few of them as possible are moved, each as little
// as possible, `keep` not at all. None: there is none nearby. A contract without relations accepts every shape.
std::optional<Shape> legal_shape(const Contract& contract, Shape shape, std::string_view keep = "");

}  // namespace assay::contract
