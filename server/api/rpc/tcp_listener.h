// Private to server/api: listens at a TCP port and accepts its connections.
//
// Thread-safety: Start and Stop belong to one thread. Ownership: owns the
// socket that listens and the thread that accepts; connections belong to whom
// they are given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace gpupool::server {

class TcpListener {
 public:
  // Listens at an IP address; port 0 is any free one. The address 0.0.0.0 means
  // all addresses of IPv6, too. The text of Unavailable is the reason alone.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Listen(
      const std::string& address, uint16_t port);
  // Stops.
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  // Gives each connection to `take`, which owns it, on the thread of the
  // listener. Pauses for a moment when the system has no files left.
  void Start(std::function<void(int connection)> take);

  // Accepts no more connections and closes the socket. Idempotent.
  void Stop();

  int socket() const { return socket_; }
  int port() const { return port_; }

 private:
  TcpListener(int socket, int stop) : socket_(socket), stop_(stop) {}

  void Accept(const std::function<void(int connection)>& take) const;

  int socket_ = -1;
  int stop_ = -1;  // an eventfd, readable when the thread is to end
  int port_ = 0;
  std::thread thread_;
};

}  // namespace gpupool::server
