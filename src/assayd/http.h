// A small HTTP server for one reader at a time: Prometheus, or a person with a browser.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace assay::assayd {

struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  using Handler = std::function<Answer(std::string_view path)>;

  // `address`: "127.0.0.1:9464", "[::1]:9464" or "unix:/run/assayd/metrics.sock"; port 0: one that is free.
  Result<void> start(const std::string& address, Handler handler);
  ~HttpServer();
  const std::string& address() const { return address_; }  // with the port that it has

 private:
  void serve();
  void answer(int client) const;

  std::string address_, path_;  // of a Unix socket
  Handler handler_;
  int socket_ = -1;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace assay::assayd
