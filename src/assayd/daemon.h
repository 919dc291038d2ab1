// assayd: applications connect, and their samples are judged. One thread judges; another answers HTTP.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "assayd/http.h"
#include "assayd/store.h"
#include "assayd/watched.h"
#include "base/result.h"
#include "monitor/ring.h"

namespace assay::assayd {

// A kernel has up to 300 series, with all classes of shapes; a Prometheus takes some hundred thousand from one machine.
inline constexpr std::size_t kMostKernels = 1000;
// Each is asked in turn whether it has a sample.
inline constexpr std::size_t kMostClients = 1000;

struct DaemonOptions {
  std::string socket;      // path
  std::string state;       // folder
  std::string public_key;  // PEM; empty: certificates are not checked
  std::string group;       // whose members may connect; empty: only this user
  uint64_t captures = 100;
  std::size_t kernels = kMostKernels;  // that are watched at a time, builds of earlier deployments included
};

// Of one kernel: enough to see a pattern, and no flood.
inline constexpr uint64_t kCapturesOfAKernel = 4;

class Daemon {
 public:
  explicit Daemon(DaemonOptions options);
  ~Daemon();

  Result<void> open();
  // Until `stop` is true; `reload`: alarms are read again, evidence starts from nothing.
  void run(const std::atomic<bool>& stop, std::atomic<bool>& reload);
  Answer answer(std::string_view path);

 private:
  struct Client {
    int socket = -1;
    Application application;
    std::optional<monitor::Ring> ring;
    Watched* watched = nullptr;
    bool is_gone = false;
  };

  void accept_clients();
  void hear(Client& client);
  void admit(Client& client, int file);
  void refuse(Client& client, const std::string& why);
  void refuse_locked(Client& client, const std::string& why);  // mutex_ is held
  bool make_room();                                            // for another kernel; mutex_ is held
  bool judge_one(Client& client);
  void report(Client& client, const monitor::Sample& sample, const SampleVerdict& verdict);
  void raise(Client& client, const monitor::Sample& sample, const std::string& kind, const std::string& why,
             const SampleVerdict& verdict);
  static void notify(const Client& client, const nlohmann::json& alarm);
  void remove_ended();
  // answers.cpp
  bool has_alarm(const Watched& watched) const;
  std::map<const Watched*, Counts> counted() const;
  std::string metrics();
  std::string evidence();
  std::string page();

  DaemonOptions options_;
  Store store_;
  int socket_ = -1;
  std::vector<std::unique_ptr<Client>> clients_;
  std::mutex mutex_;  // of what metrics() reads
  std::vector<std::unique_ptr<Watched>> watched_;
  uint64_t refused_ = 0;
  bool is_crowded_ = false;
};

}  // namespace assay::assayd
