#include "cli/signals.h"

#include <csignal>

#include "base/interrupt.h"

namespace assay::cli {

namespace {

void stop(int signal) {
  if (interrupted()) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  interrupt(signal);
}

}  // namespace

void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // the parent wants it ignored, as nohup does
    struct sigaction action {};
    action.sa_handler = stop;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

int status_after_signals(int status) {
  constexpr int kSignalled = 128;
  return interrupted() ? kSignalled + interrupted() : status;
}

}  // namespace assay::cli
