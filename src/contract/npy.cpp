// The .npy format: magic, version, a Python dict literal as the header, raw data.
#include "contract/npy.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

namespace assay::contract {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr int64_t kLargest = int64_t{1} << 40;  // bytes; a header that asks for more is broken

struct Header {
  std::string descr;
  std::vector<int64_t> extents;
};

std::string header_text(std::string_view descr, const std::vector<int64_t>& extents) {
  std::string shape;
  for (const int64_t extent : extents) shape += std::to_string(extent) + ", ";
  if (extents.size() > 1) shape.resize(shape.size() - 2);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // Magic, version and length take ten bytes; the data begins at a multiple of 64.
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  return text + '\n';
}

// All that precedes the data.
std::string prefix_of(std::string_view descr, const std::vector<int64_t>& extents) {
  const std::string header = header_text(descr, extents);
  std::string prefix(kMagic, 6);
  prefix += {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return prefix + header;
}

Result<void> write(const std::string& path, std::string_view descr, const std::vector<int64_t>& extents,
                   std::span<const std::byte> data) {
  std::ofstream file(path, std::ios::binary);
  file << prefix_of(descr, extents);
  file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  file.close();
  if (!file) return Error{"cannot write this file", path};
  return {};
}

// The text after `'key':`, blanks skipped; empty if the key is missing.
std::string_view value_of(std::string_view dict, std::string_view key) {
  const std::string quoted = fmt::format("'{}'", key);
  std::size_t at = dict.find(quoted);
  if (at == std::string_view::npos) return {};
  at = dict.find(':', at + quoted.size());
  if (at == std::string_view::npos) return {};
  ++at;
  while (at < dict.size() && dict[at] == ' ') ++at;
  return dict.substr(at);
}

Result<Header> parse_header(std::string_view dict, const std::string& path) {
  const Error broken{"this is not a .npy header that can be read", path};
  Header header;
  std::string_view descr = value_of(dict, "descr");
  if (descr.size() < 4 || descr[0] != '\'') return broken;
  const std::size_t end = descr.find('\'', 1);
  if (end == std::string_view::npos) return broken;
  header.descr = descr.substr(1, end - 1);
  if (!value_of(dict, "fortran_order").starts_with("False"))
    return Error{"the array is in Fortran order; save it with numpy.ascontiguousarray", path};
  std::string_view shape = value_of(dict, "shape");
  if (shape.empty() || shape[0] != '(') return broken;
  int64_t product = 1;
  for (std::size_t i = 1; i < shape.size() && shape[i] != ')';) {
    if (shape[i] == ' ' || shape[i] == ',') {
      ++i;
      continue;
    }
    int64_t extent = 0;
    const std::size_t first = i;
    while (i < shape.size() && shape[i] >= '0' && shape[i] <= '9' && extent < kLargest)
      extent = extent * 10 + (shape[i++] - '0');
    if (i == first || (extent > 0 && product > kLargest / extent)) return broken;
    product *= extent;
    header.extents.push_back(extent);
  }
  return header;
}

struct Array {
  Header header;
  Bytes data;
};

Result<Array> read(std::istream& file, const std::string& path) {
  char prefix[8];
  if (!file.read(prefix, 8) || std::memcmp(prefix, kMagic, 6) != 0)
    return Error{"this is not a .npy file", path};
  unsigned char length[4] = {0, 0, 0, 0};
  file.read(reinterpret_cast<char*>(length), prefix[6] == 1 ? 2 : 4);
  const std::size_t size =
      length[0] + 256u * length[1] + 65536u * length[2] + 16777216u * static_cast<std::size_t>(length[3]);
  if (!file || size > (1u << 20)) return Error{"the .npy header is broken", path};
  std::string dict(size, ' ');
  file.read(dict.data(), static_cast<std::streamsize>(size));
  if (!file) return Error{"the .npy file ends inside its header", path};
  Result<Header> header = parse_header(dict, path);
  if (!header) return header.error();
  const std::string& descr = header->descr;
  if (descr.size() < 3 || descr[0] == '>')
    return Error{fmt::format("arrays of '{}' cannot be read; save little-endian numbers", descr), path};
  const int64_t item = std::atoi(descr.c_str() + 2);
  if (item < 1 || item > 16) return Error{fmt::format("arrays of '{}' cannot be read", descr), path};
  int64_t count = 1;
  for (const int64_t extent : header->extents) count *= extent;
  const std::streampos here = file.tellg();
  file.seekg(0, std::ios::end);
  if (file.tellg() - here < count * item) return Error{"the .npy file ends inside its data", path};
  file.seekg(here);
  Array array{*header, Bytes(static_cast<std::size_t>(count * item))};
  file.read(reinterpret_cast<char*>(array.data.data()), static_cast<std::streamsize>(array.data.size()));
  return array;
}

Result<Array> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{"cannot open this file: each tensor of the contract needs one, written by numpy.save", path};
  return read(file, path);
}

// The dtype of ours whose descr this is, if any; codes of bf16 and fp8 read as integers.
std::optional<DType> plain_dtype(std::string_view descr) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    const bool raw_code = is_float(dtype) && info(dtype).npy.find('f') == std::string_view::npos;
    if (!raw_code && info(dtype).npy.substr(1) == descr.substr(1)) return dtype;
  }
  return std::nullopt;
}

}  // namespace

Result<void> write_npy(const std::string& path, const Tensor& tensor) {
  return write(path, info(tensor.dtype).npy, tensor.extents, tensor.bytes);
}

Result<void> write_npy_f64(const std::string& path, const Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  return write(path, "<f8", tensor.extents, std::as_bytes(std::span(values)));
}

namespace {

Result<Tensor> tensor_of(Result<Array> array, const std::string& path, DType dtype) {
  if (!array) return array.error();
  const std::string& descr = array->header.descr;
  if (info(dtype).npy.substr(1) == descr.substr(1))
    return Tensor{dtype, array->header.extents, std::move(array->data)};
  const Error mismatch{fmt::format("the array holds '{}', the contract says {} ('{}')", descr,
                                   info(dtype).name, info(dtype).npy),
                       path};
  const std::optional<DType> held = plain_dtype(descr);
  if (!held) return mismatch;
  Tensor source{*held, array->header.extents, std::move(array->data)};
  Tensor result = Tensor::zeros(dtype, source.extents);
  const bool both_integers = !is_float(*held) && !is_float(dtype);
  for (int64_t i = 0; i < source.count(); ++i) {
    bool same = false;
    if (both_integers) {
      result.store_int(i, source.load_int(i));
      same = result.load_int(i) == source.load_int(i);
    } else {
      const double value = source.load(i);
      result.store(i, value);
      same = result.load(i) == value || (std::isnan(value) && is_float(dtype));
    }
    if (!same) {
      Error error = mismatch;
      error.message +=
          fmt::format(", and element {} does not fit: save it in that dtype", coordinates(source.extents, i));
      return error;
    }
  }
  return result;
}

}  // namespace

Result<Tensor> read_npy(const std::string& path, DType dtype) {
  return tensor_of(read(path), path, dtype);
}

std::string encode_npy(const Tensor& tensor) {
  std::string bytes = prefix_of(info(tensor.dtype).npy, tensor.extents);
  bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return bytes;
}

Result<Tensor> decode_npy(const std::string& bytes, const std::string& name, DType dtype) {
  std::istringstream file(bytes);
  return tensor_of(read(file, name), name, dtype);
}

Result<Tensor> read_npy_f64(const std::string& path) {
  Result<Array> array = read(path);
  if (!array) return array.error();
  const std::optional<DType> held = plain_dtype(array->header.descr);
  if (!held) return Error{fmt::format("arrays of '{}' cannot be read", array->header.descr), path};
  const Tensor source{*held, array->header.extents, std::move(array->data)};
  Tensor result = Tensor::zeros(DType::f64, source.extents);
  for (int64_t i = 0; i < source.count(); ++i) result.store(i, source.load(i));
  return result;
}

}  // namespace assay::contract
