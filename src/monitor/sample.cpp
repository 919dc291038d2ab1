#include "monitor/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace assay::monitor {

using contract::Arg;
using contract::ArgKind;
using contract::DType;
using Json = nlohmann::json;

namespace {

int64_t load_dim(DType type, const void* from) {
  return contract::load_int(type, static_cast<const std::byte*>(from));
}

}  // namespace

CallShape::CallShape(const contract::Contract& contract) : contract_(contract) {
  for (std::size_t i = 0; i < contract.kernel.args.size(); ++i)
    if (const contract::Dim* dim = contract.dim(contract.kernel.args[i].name);
        dim && contract.kernel.args[i].kind == ArgKind::Dim)
      dims_.push_back({i, static_cast<std::size_t>(contract::info(dim->type).bytes)});
}

std::string CallShape::unreadable() const {
  for (const contract::TensorSpec& spec : contract_.tensors)
    if (!spec.buffer.empty() || spec.pointers)
      return fmt::format("the tensor {} is {}; such calls cannot be monitored", spec.name,
                         spec.uncommon_memory());
  for (const Arg& arg : contract_.kernel.args)
    if (arg.kind == ArgKind::Complex)
      return fmt::format("the scalar {} is complex; such calls cannot be monitored", arg.name);
  for (const contract::Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    const bool given = std::ranges::any_of(contract_.kernel.args, [&](const Arg& arg) {
      return arg.kind == ArgKind::Dim && arg.name == dim.name;
    });
    if (!given)
      return fmt::format(
          "the dim {} is not an argument of the kernel, so the size of a call is unknown; add it to `args`",
          dim.name);
  }
  return "";
}

uint64_t CallShape::shape_hash(void* const* args) const {
  uint64_t hash = 0;
  for (const DimArgument& dim : dims_) {
    uint64_t value = 0;
    std::memcpy(&value, args[dim.at], dim.bytes);
    hash = scramble(hash ^ value) + kGoldenStep;
  }
  return hash | 1;  // never 0
}

Result<CallArguments> CallShape::read(void* const* args) const {
  CallArguments call;
  std::map<std::string, uint64_t, std::less<>> addresses;
  for (const contract::Dim& dim : contract_.dims)
    if (dim.is_constant()) call.shape[dim.name] = dim.min;
  for (std::size_t i = 0; i < contract_.kernel.args.size(); ++i) {
    const Arg& arg = contract_.kernel.args[i];
    if (arg.kind == ArgKind::Dim) {
      if (const contract::Dim* dim = contract_.dim(arg.name))
        call.shape[arg.name] = load_dim(dim->type, args[i]);
    } else if (arg.kind == ArgKind::Scalar) {
      const contract::ScalarSpec* spec = contract_.scalar(arg.name);
      contract::Scalar scalar{spec->dtype, 0};
      std::memcpy(&scalar.bits, args[i], static_cast<std::size_t>(contract::info(spec->dtype).bytes));
      call.scalars[arg.name] = scalar;
    } else if (arg.kind == ArgKind::Tensor) {
      std::memcpy(&addresses[arg.name], args[i], sizeof(uint64_t));
    }
  }
  if (auto legal = contract_.check_shape(call.shape); !legal) return legal.error();
  for (const bool after : {false, true})
    for (const contract::TensorSpec& spec : contract_.tensors) {
      const auto address = addresses.find(spec.name);
      if (address == addresses.end() || (after ? !spec.is_output() : !spec.is_input())) continue;
      if (spec.optional) {
        call.scalars[contract::presence_of(spec.name)] =
            contract::Scalar::of_int(DType::boolean, address->second != 0);
        if (address->second == 0) continue;
      }
      const auto layout = spec.layout(call.shape);
      if (!layout) return layout.error();
      call.images.push_back({spec.name, address->second, layout->bytes, after});
      call.bytes += layout->bytes;
    }
  return call;
}

std::string encode_sample(const CallArguments& call, uint64_t number, bool is_shadow) {
  Json json = {{"call", number}, {"shape", call.shape}, {"shadow", is_shadow}};
  json["scalars"] = Json::object();
  for (const auto& [name, scalar] : call.scalars) json["scalars"][name] = scalar.bits;
  json["images"] = Json::array();
  for (const Image& image : call.images) json["images"].push_back({image.name, image.bytes, image.after});
  const std::string text = json.dump();
  std::string bytes(sizeof(uint64_t), '\0');
  const uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

namespace {

class SampleDecoder {
 public:
  SampleDecoder(const contract::Contract& contract, std::span<const std::byte> slot)
      : contract_(contract), slot_(slot) {}

  Result<Sample> run() {
    const auto text = take(8);
    if (!text) return text.error();
    uint64_t length = 0;
    std::memcpy(&length, text->data(), sizeof length);
    const auto header = take(length);
    if (!header) return header.error();
    const Json json =
        Json::parse(reinterpret_cast<const char*>(header->data()),
                    reinterpret_cast<const char*>(header->data()) + header->size(), nullptr, false);
    if (!json.is_object()) return Error{"a sample is damaged"};
    sample_.call = json.at("call").get<uint64_t>();
    sample_.bindings.shape = json.at("shape").get<contract::Shape>();
    if (auto legal = contract_.check_shape(sample_.bindings.shape); !legal) return legal.error();
    read_scalars(json.at("scalars"));
    if (auto read = read_images(json.at("images"), false); !read) return read.error();
    if (json.at("shadow").get<bool>())
      if (auto read = read_images(json.at("images"), true); !read) return read.error();
    fill_absent();
    return std::move(sample_);
  }

 private:
  Result<std::span<const std::byte>> take(uint64_t bytes) {
    if (bytes > slot_.size()) return Error{"a sample is damaged: it is shorter than it says"};
    const auto part = slot_.first(bytes);
    slot_ = slot_.subspan(bytes);
    return part;
  }

  void read_scalars(const Json& json) {
    for (const contract::ScalarSpec& spec : contract_.scalars)
      if (json.contains(spec.name))
        sample_.bindings.scalars[spec.name] = {spec.dtype, json.at(spec.name).get<uint64_t>()};
      else if (spec.values.size() == 1)
        sample_.bindings.scalars[spec.name] =
            contract::is_float(spec.dtype)
                ? contract::Scalar::of(spec.dtype, spec.values[0])
                : contract::Scalar::of_int(spec.dtype, static_cast<int64_t>(spec.values[0]));
  }

  Result<void> read_images(const Json& json, bool is_trusted) {
    for (const Json& image : json) {
      const bool after = image.at(2).get<bool>();
      if (is_trusted && !after) continue;
      const contract::TensorSpec* spec = contract_.tensor(image.at(0).get<std::string>());
      if (!spec) return Error{"a sample is damaged: it has a tensor that the contract does not have"};
      const auto layout = spec->layout(sample_.bindings.shape);
      if (!layout) return layout.error();
      if (layout->bytes != image.at(1).get<int64_t>())
        return Error{"a sample is damaged: a tensor's size is wrong"};
      const auto bytes = take(static_cast<uint64_t>(layout->bytes));
      if (!bytes) return bytes.error();
      auto tensor = contract::Tensor::zeros(spec->dtype, layout->extents);
      if (layout->is_plain())
        std::copy(bytes->begin(), bytes->end(), tensor.bytes.data());
      else
        layout->unpack(bytes->data(), tensor);
      auto& to = is_trusted ? sample_.trusted : after ? sample_.outputs : sample_.bindings.inputs;
      to[spec->name] = std::make_shared<const contract::Tensor>(std::move(tensor));
    }
    return {};
  }

  // An absent input is never read, but has to be there.
  void fill_absent() {
    for (const contract::TensorSpec* spec : contract_.inputs()) {
      if (!spec->optional || sample_.bindings.inputs.contains(spec->name)) continue;
      const auto extents = spec->extents(sample_.bindings.shape);
      if (extents)
        sample_.bindings.inputs[spec->name] =
            std::make_shared<const contract::Tensor>(contract::Tensor::zeros(spec->dtype, *extents));
    }
  }

  const contract::Contract& contract_;
  std::span<const std::byte> slot_;
  Sample sample_;
};

}  // namespace

Result<Sample> decode_sample(const contract::Contract& contract, std::span<const std::byte> slot) {
  try {
    auto sample = SampleDecoder(contract, slot).run();
    if (!sample) return sample;
    for (const contract::TensorSpec* spec : contract.inputs())
      if (!sample->bindings.inputs.contains(spec->name))
        return Error{fmt::format("the tensor {} is not an argument of the kernel", spec->name)};
    return sample;
  } catch (const nlohmann::json::exception&) {
    return Error{"a sample is damaged"};
  }
}

}  // namespace assay::monitor
