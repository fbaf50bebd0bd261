// A port of this machine whose connections a test serves itself.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/trace/collector_url.h"

namespace gpupool::server {

class RawPort {
 public:
  RawPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~RawPort() { close(socket_); }
  RawPort(const RawPort&) = delete;
  RawPort& operator=(const RawPort&) = delete;

  CollectorUrl url() const {
    return *ParseCollectorUrl(absl::StrCat("http://127.0.0.1:", port_));
  }
  // Returns whether a client has connected that was not accepted.
  bool HasClient() const {
    pollfd ready = {.fd = socket_, .events = POLLIN, .revents = 0};
    return poll(&ready, 1, 0) == 1;
  }
  // Blocks until a client connects, or until Stop. Returns its socket, which
  // the caller closes; -1 after Stop.
  int Accept() { return accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC); }
  void Stop() { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
  uint16_t port_ = 0;
};

}  // namespace gpupool::server
