// assayd: judges the samples of applications that link libassay_monitor (docs/monitor.md).
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
  app.add_option("--socket", options.socket, "where applications connect; ASSAYD_SOCKET sets the default")
      ->type_name("PATH");
  app.add_option("--group", options.group, "group whose members may connect, in addition to this user")
      ->type_name("GROUP");
  app.add_option("--listen", listen, "address of /metrics, or unix:PATH; 127.0.0.1:9464 by default")
      ->type_name("ADDRESS");
  app.add_option("--state", options.state, "folder of alarms and captures")->type_name("FOLDER");
  app.add_option("--key", key, "public key, PEM, of the certificates of applications")->type_name("FILE");
  app.add_option("--captures", options.captures, "keep at most this many captures; 100 by default")
      ->type_name("N");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // prints the help
    return fail(assay::Error{fmt::format("{}; see `assayd --help`", error.what())});
  }
  if (!key.empty()) {
    const auto pem = assay::read_file(key);
    if (!pem) return fail(pem.error());
    options.public_key = *pem;
  }
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { stop = true; });
  std::signal(SIGHUP, [](int) { reload = true; });
  std::signal(SIGPIPE, SIG_IGN);
  // The usual limit of open files is enough for a few hundred applications.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, std::max<rlim_t>(files.rlim_cur, 4096));
    setrlimit(RLIMIT_NOFILE, &files);
  }
  assay::assayd::Daemon daemon(options);
  if (auto opened = daemon.open(); !opened) return fail(opened.error());
  assay::assayd::HttpServer server;
  if (auto started = server.start(listen, [&](std::string_view path) { return daemon.answer(path); });
      !started)
    return fail(started.error());
  fmt::print("assayd {}: applications at {}, metrics at {}{}, files in {}\n", ASSAY_VERSION, options.socket,
             server.address().starts_with("unix:") ? "" : "http://",
             server.address() + (server.address().starts_with("unix:") ? "" : "/metrics"), options.state);
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
