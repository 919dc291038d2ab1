#include "assayd/http.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/temporary_folder.h"

namespace assay::assayd {
namespace {

int connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int made = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return made;
}

std::string ask(const std::string& path, const std::string& request) {
  const int made = connected(path);
  EXPECT_EQ(send(made, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[512];
  for (ssize_t got = 1; got > 0;) {
    got = recv(made, part, sizeof part, 0);
    if (got > 0) answer.append(part, static_cast<std::size_t>(got));
  }
  close(made);
  return answer;
}

TEST(HttpServer, AnswersGetAndNothingElse) {
  const TemporaryFolder folder("http");
  HttpServer server;
  ASSERT_TRUE(server.start("unix:" + folder.file("s"), [](std::string_view path) {
    return path == "/a" ? Answer{200, "text/plain", "yes\n"} : Answer{404, "text/plain", "no\n"};
  }));
  EXPECT_TRUE(ask(folder.file("s"), "GET /a?x=1 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(ask(folder.file("s"), "GET /a HTTP/1.1\r\n\r\n")
                  .ends_with("Content-Length: 4\r\nConnection: close\r\n\r\nyes\n"));
  EXPECT_TRUE(ask(folder.file("s"), "GET /b HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(ask(folder.file("s"), "POST /a HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(ask(folder.file("s"), std::string(20'000, 'x')).starts_with("HTTP/1.1 4"));
}

// There is one thread for all. Somebody who never ends his request must not keep Prometheus waiting.
TEST(HttpServer, ASlowRequestDoesNotHoldUpOthers) {
  const TemporaryFolder folder("http");
  HttpServer server;
  ASSERT_TRUE(server.start("unix:" + folder.file("s"), [](std::string_view) {
    return Answer{200, "text/plain", "yes\n"};
  }));
  const int slow = connected(folder.file("s"));
  std::atomic<bool> stop{false};
  std::thread dripping([&] {
    while (!stop) {
      send(slow, "x", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is being served
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(ask(folder.file("s"), "GET /a HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(10));  // 8192 bytes take 14 minutes
  stop = true;
  dripping.join();
  close(slow);
}

TEST(HttpServer, AnAddressThatIsNoneIsRefusedInWords) {
  for (const char* wrong : {"9464", "localhost:9464", "127.0.0.1:many", "1.2.3.4.5:1"}) {
    HttpServer server;
    const auto started = server.start(wrong, [](std::string_view) { return Answer{}; });
    ASSERT_FALSE(started) << wrong;
    EXPECT_FALSE(started.error().message.empty());
  }
  HttpServer server;
  ASSERT_TRUE(server.start("127.0.0.1:0", [](std::string_view) { return Answer{}; }));
  EXPECT_NE(server.address(), "127.0.0.1:0");  // the port that it has
}

}  // namespace
}  // namespace assay::assayd
