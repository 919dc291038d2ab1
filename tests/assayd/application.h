// An application on the virtual GPU: calls of "scale", y = 2 x, whose results the test chooses.
#pragma once

#include <assay_monitor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "assayd/daemon.h"
#include "base/file.h"
#include "base/temporary_folder.h"
#include "folders.h"

extern "C" {
int cudaMalloc(void**, size_t);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
int cudaStreamCreate(void**);
int cudaStreamSynchronize(void*);
int cudaStreamBeginCapture(void*, int);
int cudaStreamEndCapture(void*, void**);
int cudaGraphInstantiate(void**, void*, unsigned long long);
}

namespace assay::assayd {

inline std::string contract_text(const std::string& name, const std::string& monitor) {
  return "[kernel]\nsource = \"scale.ptx\"\nglobal = \"" + name +
         "\"\ngrid = [\"ceil_div(n, 256)\"]\nblock = [256]\nargs = [\"x\", \"y\", \"n\"]\n"
         "[dims]\nn = { min = 1, max = 4096 }\n[tensors.x]\ndtype = \"f32\"\nshape = [\"n\"]\n"
         "[tensors.y]\ndtype = \"f32\"\nshape = [\"n\"]\nrole = \"out\"\n"
         "[reference]\nformula = \"y[i] = 2 * x[i]\"\n[monitor]\n" +
         monitor;
}

// An assayd in a thread of the test.
class RunningDaemon {
 public:
  explicit RunningDaemon(const std::string& folder, const std::string& key = "", uint64_t captures = 100,
                         std::size_t kernels = kMostKernels)
      : daemon_({.socket = folder + "/s",
                 .state = folder,
                 .public_key = key,
                 .captures = captures,
                 .kernels = kernels}) {
    const auto opened = daemon_.open();
    EXPECT_TRUE(opened) << opened.error().text();
    thread_ = std::thread([this] { daemon_.run(stop_, reload_); });
  }
  ~RunningDaemon() {
    stop_ = true;
    thread_.join();
  }
  std::string metrics() { return daemon_.answer("/metrics").body; }
  Answer get(std::string_view path) { return daemon_.answer(path); }
  void reload() { reload_ = true; }
  // The sum of a metric over its labels; `with`: a part that the labels have.
  double value(const std::string& name, const std::string& with = "") {
    double sum = 0;
    std::istringstream lines(metrics());
    for (std::string line; std::getline(lines, line);) {
      const bool is_it = line.starts_with(name + "{") || line.starts_with(name + " ");
      if (is_it && line.find(with) != std::string::npos) sum += std::atof(line.c_str() + line.rfind(' '));
    }
    return sum;
  }
  // Waits for up to three seconds.
  bool becomes(const std::string& name, double least, const std::string& with = "") {
    for (int i = 0; i < 300 && value(name, with) < least; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return value(name, with) >= least;
  }

 private:
  Daemon daemon_;
  std::atomic<bool> stop_{false}, reload_{false};
  std::thread thread_;
};

class MonitorTest : public testing::Test {
 protected:
  MonitorTest() {
    setenv("ASSAYD_SOCKET", folder_.file("s").c_str(), 1);
    setenv("ASSAY_MONITOR_QUIET", "1", 1);
    std::ofstream(folder_.file("scale.ptx"))
        << text_of(std::string(kSourceFolder) + "/tests/commands/inputs/scale.ptx");
    cudaMalloc(&x_, kBytes);
    cudaMalloc(&y_, kBytes);
    cudaMalloc(&right_, kBytes);
    cudaStreamCreate(&stream_);
  }
  ~MonitorTest() override {
    for (assay_watch* watch : open_) assay_close(watch);
  }

  assay_watch* open(const std::string& name = "scale",
                    const std::string& monitor = "every = 1\nelements = 64\nmax_bytes = \"1MiB\"\n") {
    std::ofstream(folder_.file(name + ".toml")) << contract_text(name, monitor);
    assay_watch* watch = nullptr;
    EXPECT_EQ(assay_open(folder_.file(name + ".toml").c_str(), nullptr, &watch), 0) << assay_error();
    open_.push_back(watch);
    // The first sample of a size is dropped while memory is made for it.
    call(watch, 64);
    for (int i = 0; i < 300 && count(watch).samples - count(watch).dropped < 1; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      call(watch, 64);
    }
    assay_flush(watch, 100);
    return watch;
  }

  static assay_counts count(assay_watch* watch) {
    assay_counts counts{};
    assay_count(watch, &counts);
    return counts;
  }

  // A call with n elements, of which one is wrong by `error`.
  void call(assay_watch* watch, int n, float error = 0) {
    std::vector<float> x(static_cast<std::size_t>(n)), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(++number_) * 0.37f;
      y[i] = 2 * x[i];
    }
    y[x.size() / 2] += error;
    cudaMemcpy(x_, x.data(), 4 * x.size(), 1);
    cudaMemcpy(right_, y.data(), 4 * x.size(), 1);
    void* args[] = {&x_, &y_, &n};
    const uint64_t ticket = assay_before(watch, args, stream_);
    cudaMemcpyAsync(y_, right_, 4 * x.size(), 3, stream_);  // the kernel
    assay_after(watch, ticket, args, stream_);
  }

  static constexpr std::size_t kBytes = 1 << 20;
  TemporaryFolder folder_{"assayd"};
  void *x_ = nullptr, *y_ = nullptr, *right_ = nullptr, *stream_ = nullptr;
  std::vector<assay_watch*> open_;
  int number_ = 0;
};

}  // namespace assay::assayd
