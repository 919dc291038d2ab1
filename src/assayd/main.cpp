// assayd: judges the samples of applications that link libassay_monitor (docs/monitor.md).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "assayd/daemon.h"
#include "base/file.h"

namespace {

std::atomic<bool> stop{false}, reload{false};

std::string state_folder() {
  for (const auto& [name, rest] :
       {std::pair{"STATE_DIRECTORY", ""}, {"XDG_STATE_HOME", "/assayd"}, {"HOME", "/.local/state/assayd"}})
    if (const char* set = std::getenv(name); set && *set) return std::string(set) + rest;
  return "/var/lib/assayd";
}

int fail(const assay::Error& error) {
  fmt::print(stderr, "assayd: {}\n", error.text());
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Judges samples of kernel calls in production, raises alarms, and serves metrics to Prometheus.",
      "assayd");
  assay::assayd::DaemonOptions options{.socket = assay::monitor::socket_path(), .state = state_folder()};
  std::string listen = "127.0.0.1:9464", key;
  app.add_option("--socket", options.socket, "where applications connect; $ASSAYD_SOCKET");
  app.add_option("--group", options.group, "group whose members may connect, in addition to this user");
  app.add_option("--listen", listen, "address of /metrics: 127.0.0.1:9464, or unix:PATH");
  app.add_option("--state", options.state, "folder of alarms and captures");
  app.add_option("--key", key, "public key, PEM, of the certificates of applications");
  app.add_option("--captures", options.captures, "most captures to write");
  CLI11_PARSE(app, argc, argv);
  if (!key.empty()) {
    const auto pem = assay::read_file(key);
    if (!pem) return fail(pem.error());
    options.public_key = *pem;
  }
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { stop = true; });
  std::signal(SIGHUP, [](int) { reload = true; });
  std::signal(SIGPIPE, SIG_IGN);
  assay::assayd::Daemon daemon(options);
  if (auto opened = daemon.open(); !opened) return fail(opened.error());
  assay::assayd::HttpServer server;
  if (auto started = server.start(listen, [&](std::string_view path) { return daemon.answer(path); });
      !started)
    return fail(started.error());
  fmt::print("assayd {}: applications at {}, metrics at http://{}/metrics, files in {}\n", ASSAY_VERSION,
             options.socket, server.address(), options.state);
  std::fflush(stdout);
  daemon.run(stop, reload);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "assayd: %s\n", error.what());
    return 2;
  }
}
