#include "monitor/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "contract/npy.h"
#include "monitor/tar.h"

namespace assay::monitor {

namespace fs = std::filesystem;
using contract::Contract;
using contract::Scalar;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kLibrary = "library.so";
constexpr unsigned char kMagic[4] = {0x28, 0xb5, 0x2f, 0xfd};  // of zstd
// Of what a capture may hold, unpacked. Chosen: far above the largest sample that a monitor takes.
constexpr std::size_t kLargest = std::size_t{8} << 30;
// Of this machine's memory: the archive, its files and its tensors are in memory at the same time.
constexpr std::size_t kShareOfMemory = 4;
constexpr int kLevel = 1;  // of zstd: a capture is written while a machine is at work

std::string file_name(std::size_t i) {
  return fmt::format("files/{}", i);
}

Json scalars_json(const contract::Bindings& bindings) {
  Json json = Json::object();
  for (const auto& [name, scalar] : bindings.scalars)
    json[name] = {{"dtype", contract::info(scalar.dtype).name}, {"bits", scalar.bits}};
  return json;
}

Json manifest_of(const Capture& capture) {
  Json files = Json::array();
  files.push_back(capture.contract.path);
  for (const CapturedFile& file : capture.files) files.push_back(file.path);
  Json outputs = Json::array(), inputs = Json::array();
  for (const auto& [name, tensor] : capture.bindings.inputs) inputs.push_back(name);
  for (const auto& [name, tensor] : capture.outputs) outputs.push_back(name);
  return {{"assay_capture", kCaptureVersion},
          {"why", capture.why},
          {"application", capture.application},
          {"call", capture.call},
          {"time", capture.unix_seconds},
          {"device",
           {{"kind", capture.device.kind}, {"name", capture.device.name}, {"uuid", capture.device.uuid}}},
          {"certificate_sha256", capture.certificate_sha256},
          {"library", capture.library.path},
          {"files", files},
          {"shape", capture.bindings.shape},
          {"scalars", scalars_json(capture.bindings)},
          {"inputs", inputs},
          {"outputs", outputs}};
}

Result<std::string> packed(const std::string& text) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), bytes.data(), bytes.size(), text.data(), text.size());
  if (ZSTD_isError(size)) return Error{fmt::format("cannot be compressed: {}", ZSTD_getErrorName(size))};
  bytes.resize(size);
  return bytes;
}

std::size_t largest_here() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return kLargest;
  return std::min(kLargest,
                  static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / kShareOfMemory);
}

Result<std::string> unpacked(const std::string& bytes, std::size_t largest) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::string text, part(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::size_t left = 1;  // 0: the frame has ended
  while (left != 0) {
    ZSTD_outBuffer out{part.data(), part.size(), 0};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left)) return Error{fmt::format("the capture is damaged: {}", ZSTD_getErrorName(left))};
    text.append(part.data(), out.pos);
    if (text.size() > largest)
      return Error{
          fmt::format("the capture would unpack to more than {} MiB; it is damaged, or this machine "
                      "has too little memory for it",
                      largest >> 20)};
    if (left != 0 && in.pos == in.size && in.pos == before && out.pos < part.size())
      return Error{"the capture is truncated; copy it again, or use another"};
  }
  if (in.pos != in.size) return Error{"the capture is damaged: data follows its end"};
  return text;
}

const std::string* find(const std::vector<TarFile>& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &TarFile::name);
  return found == files.end() ? nullptr : &found->bytes;
}

Result<void> read_scalars(const Json& json, contract::Bindings& bindings) {
  for (const auto& [name, value] : json.items()) {
    const auto dtype = contract::dtype_named(value.at("dtype").get<std::string>());
    if (!dtype) return Error{fmt::format("the capture's scalar {} is of an unknown type", name)};
    bindings.scalars[name] = Scalar{*dtype, value.at("bits").get<uint64_t>()};
  }
  return {};
}

// The tensors in a folder of the archive, as the contract describes them.
Result<CapturedOutputs> read_tensors(const Contract& contract, const contract::Shape& shape,
                                     const std::vector<TarFile>& files, const Json& names,
                                     const std::string& folder) {
  CapturedOutputs tensors;
  for (const Json& item : names) {
    const auto name = item.get<std::string>();
    const contract::TensorSpec* spec = contract.tensor(name);
    const std::string file = fmt::format("{}/{}.npy", folder, name);
    const std::string* bytes = find(files, file);
    if (!spec || !bytes) return Error{fmt::format("the capture has no tensor {}", file)};
    auto tensor = contract::decode_npy(*bytes, file, spec->dtype);
    if (!tensor) return tensor.error();
    const auto extents = spec->extents(shape);
    if (!extents) return extents.error();
    if (*extents != tensor->extents) return Error{fmt::format("{} does not have the contract's shape", file)};
    tensors[name] = std::make_shared<const contract::Tensor>(std::move(*tensor));
  }
  return tensors;
}

Result<Capture> decode(const std::vector<TarFile>& files) {
  const std::string* text = find(files, kManifest);
  if (!text) return Error{"this is not a capture: it has no manifest"};
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("assay_capture"))
    return Error{"this is not a capture: its manifest cannot be read"};
  const int version = json.at("assay_capture").get<int>();
  if (version != kCaptureVersion)
    return Error{
        fmt::format("this capture is of version {}, but this program reads version {}; use the "
                    "version of Assay that wrote it, or a newer one",
                    version, kCaptureVersion)};
  Capture capture;
  capture.why = json.at("why").get<std::string>();
  capture.application = json.at("application").get<std::string>();
  capture.call = json.at("call").get<uint64_t>();
  capture.unix_seconds = json.at("time").get<int64_t>();
  const Json& device = json.at("device");
  capture.device = {device.at("kind").get<std::string>(), device.at("name").get<std::string>(),
                    device.at("uuid").get<std::string>()};
  capture.certificate_sha256 = json.at("certificate_sha256").get<std::string>();
  capture.library.path = json.at("library").get<std::string>();
  if (const std::string* bytes = find(files, kLibrary)) capture.library.bytes = *bytes;
  for (std::size_t i = 0; i < json.at("files").size(); ++i) {
    const std::string* bytes = find(files, file_name(i));
    const auto path = json.at("files")[i].get<std::string>();
    if (!bytes) return Error{fmt::format("the capture lacks {}", path)};
    CapturedFile& to = i == 0 ? capture.contract : capture.files.emplace_back();
    to = {path, *bytes};
  }
  capture.bindings.shape = json.at("shape").get<contract::Shape>();
  const auto contract = contract::parse(capture.contract.bytes, capture.contract.path);
  if (!contract) return contract.error();
  if (auto legal = contract->check_shape(capture.bindings.shape); !legal) return legal.error();
  if (auto read = read_scalars(json.at("scalars"), capture.bindings); !read) return read.error();
  auto inputs = read_tensors(*contract, capture.bindings.shape, files, json.at("inputs"), "inputs");
  if (!inputs) return inputs.error();
  capture.bindings.inputs = std::move(*inputs);
  auto outputs = read_tensors(*contract, capture.bindings.shape, files, json.at("outputs"), "outputs");
  if (!outputs) return outputs.error();
  if (outputs->empty()) return Error{"the capture has no outputs, so there is nothing to judge"};
  capture.outputs = std::move(*outputs);
  return capture;
}

// The file appears under its name when all of it is on the disk.
Result<void> write_whole(const std::string& path, const std::string& bytes) {
  const std::string part = path + ".part";
  const auto failed = [&](int number) {
    unlink(part.c_str());
    return Error{fmt::format("cannot be written: {}", std::strerror(number)), path};
  };
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return failed(errno);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t done = write(file, bytes.data() + at, bytes.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const int number = errno;
      close(file);
      return failed(number);
    }
    at += static_cast<std::size_t>(done);
  }
  const bool is_safe = fsync(file) == 0;
  const int number = errno;
  close(file);
  if (!is_safe) return failed(number);
  if (rename(part.c_str(), path.c_str()) != 0) return failed(errno);
  return {};
}

}  // namespace

Result<void> write_capture(const std::string& path, const Capture& capture) {
  std::vector<TarFile> files = {
      {kManifest, manifest_of(capture).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"},
      {file_name(0), capture.contract.bytes}};
  for (std::size_t i = 0; i < capture.files.size(); ++i)
    files.push_back({file_name(i + 1), capture.files[i].bytes});
  if (!capture.library.bytes.empty()) files.push_back({kLibrary, capture.library.bytes});
  for (const auto& [name, tensor] : capture.bindings.inputs)
    files.push_back({fmt::format("inputs/{}.npy", name), contract::encode_npy(*tensor)});
  for (const auto& [name, tensor] : capture.outputs)
    files.push_back({fmt::format("outputs/{}.npy", name), contract::encode_npy(*tensor)});
  const auto bytes = packed(write_tar(files, capture.unix_seconds));
  if (!bytes) return Error{bytes.error().message, path};
  return write_whole(path, *bytes);
}

Result<Capture> read_capture(const std::string& path, std::size_t largest) {
  const auto bytes = read_file(path);
  if (!bytes) return Error{"this capture cannot be read: " + bytes.error().message, path};
  try {
    const auto text = unpacked(*bytes, largest);
    if (!text) return Error{text.error().message, path};
    const auto files = read_tar(*text);
    if (!files) return Error{files.error().message, path};
    auto capture = decode(*files);
    return capture ? std::move(capture) : Error{capture.error().text(), path};
  } catch (const nlohmann::json::exception&) {
    return Error{"this is not a capture: its manifest is incomplete", path};
  } catch (const std::bad_alloc&) {
    return Error{"there is not enough memory to unpack this capture", path};
  }
}

Result<Capture> read_capture(const std::string& path) {
  return read_capture(path, largest_here());
}

bool is_capture(const std::string& path) {
  char first[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(first, sizeof first) && std::memcmp(first, kMagic, sizeof first) == 0;
}

Result<contract::Contract> restore_contract(const Capture& capture, const std::string& folder) {
  const auto place = [&](const CapturedFile& file) -> Result<std::string> {
    const fs::path copy = fs::path(folder) / fs::path(file.path).lexically_normal().relative_path();
    if (!copy.lexically_normal().string().starts_with(folder + "/"))
      return Error{"the capture names a file outside its folder", file.path};
    std::error_code error;
    fs::create_directories(copy.parent_path(), error);
    std::ofstream to(copy, std::ios::binary);
    to << file.bytes;
    if (!to.flush()) return Error{"cannot be written", copy.string()};
    return copy.string();
  };
  for (const CapturedFile& file : capture.files)
    if (const auto placed = place(file); !placed) return placed.error();
  const auto own = place(capture.contract);
  if (!own) return own.error();
  return contract::load(*own);
}

Result<void> add_files(const Contract& contract, Capture& capture) {
  const auto read = [](const std::string& path) -> Result<CapturedFile> {
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return Error{"is not a file", path};
    auto bytes = read_file(path);
    if (!bytes) return Error{"cannot be read: " + bytes.error().message, path};
    return CapturedFile{fs::absolute(path).lexically_normal().string(), std::move(*bytes)};
  };
  capture.contract = {fs::absolute(contract.path).lexically_normal().string(), *contract.text};
  std::vector<std::string> named = contract.kernel.sources;
  named.insert(named.end(), {contract.reference.python.file, contract.reference.cuda_source});
  for (const std::string& name : named) {
    if (name.empty()) continue;
    auto file = read(contract.resolve(name));
    if (!file) return file.error();
    capture.files.push_back(std::move(*file));
  }
  return {};
}

}  // namespace assay::monitor
