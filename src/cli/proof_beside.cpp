#include "cli/proof_beside.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "base/interrupt.h"
#include "subject/process.h"

namespace assay::cli {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);

// In the child, between fork and exec: system calls only.
[[noreturn]] void become(const std::vector<const char*>& words) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const sched_param lowest{};
  sched_setscheduler(0, SCHED_IDLE, &lowest);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int file : {0, 1, 2}) dup2(nothing, file);
  execv(words[0], const_cast<char* const*>(words.data()));
  _exit(127);
}

}  // namespace

ProofBeside::ProofBeside(std::string contract, double seconds)
    : contract_(std::move(contract)), seconds_(seconds), folder_("proof") {}

ProofBeside::~ProofBeside() {
  stop();
}

void ProofBeside::start() {
  if (child_ > 0 || folder_.path().empty()) return;
  const std::string program = subject::program_folder() + "/assay";
  const std::string result = folder_.file("proof.json"), time = fmt::format("{:.1f}", seconds_);
  const std::vector<const char*> words = {program.c_str(), "prove",  contract_.c_str(), "--json",
                                          result.c_str(),  "--time", time.c_str(),      nullptr};
  child_ = fork();
  if (child_ == 0) become(words);
  if (child_ > 0) setpgid(child_, child_);  // whichever of the two comes first
}

void ProofBeside::stop() {
  if (child_ <= 0) return;
  kill(-child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
}

Json ProofBeside::finish(double wait) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait);
  while (child_ > 0 && !interrupted()) {
    if (waitpid(child_, nullptr, WNOHANG) == child_) {
      kill(-child_, SIGKILL);  // what it may have left behind
      child_ = -1;
    } else if (std::chrono::steady_clock::now() >= until) {
      break;
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
  stop();
  std::ifstream file(folder_.file("proof.json"));
  Json json = Json::parse(file, nullptr, false);
  return json.is_object() && json.contains("obligations") ? json : Json();
}

}  // namespace assay::cli
