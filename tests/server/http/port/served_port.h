// An HTTP port with some routes, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "server/http/port/client_presence.h"
#include "server/http/port/http_port.h"
#include "tests/server/http/port/raw_client.h"

namespace gpupool::server {

//   GET  /hello    "hello", on the thread of the port
//   GET  /health   "healthy"
//   GET  /large    kLarge bytes
//   GET  /broken   throws
//   POST /echo     the body, at most kMostEcho bytes
//   POST /held     "done", after `go_on`
//   POST /watched  "lost" when the client is lost
//   POST /stream   what `stream` writes
class ServedPort {
 public:
  static constexpr size_t kMostEcho = 1 << 20;
  static constexpr size_t kLarge = 32 << 20;

  explicit ServedPort(HttpPortOptions options = {}) {
    HttpRouter router({.most_body_bytes = 1024,
                       .answer =
                           [](HttpRequest& request) {
                             return JsonAnswer(404, "no " + request.path);
                           },
                       .error =
                           [](const absl::Status& error, int status) {
                             return JsonAnswer(status != 0 ? status : 503,
                                               std::string(error.message()));
                           }});
    AddGets(&router);
    AddPosts(&router);
    auto port = HttpPort::Start(options, std::move(router));
    EXPECT_TRUE(port.ok()) << port.status();
    if (port.ok()) port_ = *std::move(port);
  }

  ~ServedPort() {
    if (!go_on.HasBeenNotified()) go_on.Notify();
    Stop();
  }

  int port() const { return port_->port(); }
  RawClient NewClient() const { return RawClient(port()); }
  void BeginStop() { port_->BeginStop(); }
  void Stop() { port_.reset(); }

  // Returns the answer of a connection of its own.
  RawAnswer Ask(const std::string& request) const {
    RawClient client = NewClient();
    client.Send(request);
    return client.ReceiveAnswer();
  }
  RawAnswer Get(const std::string& path) const {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
  }

  absl::Notification go_on;
  std::atomic<int> held{0};
  std::atomic<bool> lost{false};
  std::function<void(BodyWriter&)> stream = [](BodyWriter&) {};
  BodyBudget bodies{4 * kMostEcho};

 private:
  static HttpResponse Text(std::string text) {
    HttpResponse response;
    response.Set("Content-Type", "text/plain");
    response.body = std::move(text);
    return response;
  }

  static void AddGets(HttpRouter* router) {
    router->Add({.method = "GET",
                 .pattern = "/hello",
                 .answer = [](HttpRequest&) { return Text("hello"); }});
    router->Add({.method = "GET",
                 .pattern = "/health",
                 .lane = Lane::kHealth,
                 .answer = [](HttpRequest&) { return Text("healthy"); }});
    router->Add({.method = "GET",
                 .pattern = "/large",
                 .lane = Lane::kGet,
                 .answer = [](HttpRequest&) {
                   return Text(std::string(kLarge, 'x'));
                 }});
    router->Add({.method = "GET",
                 .pattern = "/broken",
                 .lane = Lane::kGet,
                 .answer = [](HttpRequest&) -> HttpResponse {
                   throw std::runtime_error("broken");
                 }});
  }

  void AddPosts(HttpRouter* router) {
    router->Add({.method = "POST",
                 .pattern = "/echo",
                 .lane = Lane::kPost,
                 .most_body_bytes = kMostEcho,
                 .bodies = &bodies,
                 .answer = [](HttpRequest& request) {
                   return Text(std::move(request.body));
                 }});
    router->Add({.method = "POST",
                 .pattern = "/held",
                 .lane = Lane::kPost,
                 .answer = [this](HttpRequest&) {
                   ++held;
                   go_on.WaitForNotification();
                   return Text("done");
                 }});
    router->Add({.method = "POST",
                 .pattern = "/watched",
                 .lane = Lane::kPost,
                 .answer = [this](HttpRequest& request) {
                   ++held;
                   absl::Notification gone;
                   const OnClientLoss loss(request.client,
                                           [&] { gone.Notify(); });
                   lost = gone.WaitForNotificationWithTimeout(kPatience);
                   return Text("lost");
                 }});
    router->Add({.method = "POST",
                 .pattern = "/stream",
                 .lane = Lane::kApi,
                 .answer = [this](HttpRequest&) {
                   HttpResponse response = Text("");
                   response.stream = [this](BodyWriter& writer) {
                     stream(writer);
                   };
                   return response;
                 }});
  }

  std::unique_ptr<HttpPort> port_;
};

}  // namespace gpupool::server
