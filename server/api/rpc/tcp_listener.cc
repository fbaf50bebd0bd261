#include "server/api/rpc/tcp_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

// Connections that the system keeps until they are accepted; it lowers the
// number to its own limit.
constexpr int kMostUnaccepted = 4096;
constexpr int kPauseMilliseconds = 100;  // without files
constexpr int kPausesBetweenLogLines = 600;
// Time after which a peer that acknowledges nothing is gone; that of our
// keepalive pings.
constexpr unsigned kUnacknowledgedMilliseconds = 20'000;

struct Place {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

Place PlaceOf(const in6_addr& ip, uint16_t port) {
  Place place{.size = sizeof(sockaddr_in6)};
  auto& ip6 = reinterpret_cast<sockaddr_in6&>(place.address);
  ip6.sin6_family = AF_INET6;
  ip6.sin6_addr = ip;
  ip6.sin6_port = htons(port);
  return place;
}

Place PlaceOf(const in_addr& ip, uint16_t port) {
  Place place{.size = sizeof(sockaddr_in)};
  auto& ip4 = reinterpret_cast<sockaddr_in&>(place.address);
  ip4.sin_family = AF_INET;
  ip4.sin_addr = ip;
  ip4.sin_port = htons(port);
  return place;
}

// Returns a socket that listens, or the system's error in the form -errno.
int ListenAt(const Place& place) {
  const int family = place.address.ss_family;
  const int listening =
      socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listening < 0) return -errno;
  // Connections inherit these. SO_REUSEPORT would let a second daemon share the
  // port.
  const int yes = 1;
  const int no = 0;
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  setsockopt(listening, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(listening, IPPROTO_TCP, TCP_USER_TIMEOUT,
             &kUnacknowledgedMilliseconds, sizeof(kUnacknowledgedMilliseconds));
  if (family == AF_INET6) {
    setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (bind(listening, reinterpret_cast<const sockaddr*>(&place.address),
           place.size) == 0 &&
      listen(listening, kMostUnaccepted) == 0) {
    return listening;
  }
  const int error = errno;
  close(listening);
  return -error;
}

// Returns a socket that listens at the address, or -errno.
int ListenOn(const std::string& address, uint16_t port) {
  in_addr ip4 = {};
  in6_addr ip6 = {};
  const bool is_ip4 = inet_pton(AF_INET, address.c_str(), &ip4) == 1;
  if (!is_ip4 && inet_pton(AF_INET6, address.c_str(), &ip6) != 1) {
    return -EADDRNOTAVAIL;
  }
  const bool all = is_ip4 ? ip4.s_addr == htonl(INADDR_ANY)
                          : IN6_IS_ADDR_UNSPECIFIED(&ip6) != 0;
  if (!all) return ListenAt(is_ip4 ? PlaceOf(ip4, port) : PlaceOf(ip6, port));
  const int both = ListenAt(PlaceOf(in6addr_any, port));
  // The machine may have no IPv6.
  if (both != -EAFNOSUPPORT && both != -EADDRNOTAVAIL) return both;
  return ListenAt(PlaceOf(in_addr{.s_addr = htonl(INADDR_ANY)}, port));
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Returns whether accept may be called again at once after the error.
bool IsOfOneConnection(int error) {
  return error == EINTR || error == ECONNABORTED || error == EPROTO ||
         error == EPERM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Listen(
    const std::string& address, uint16_t port) {
  const int stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop < 0) return absl::UnavailableError(std::strerror(errno));
  const int listening = ListenOn(address, port);
  if (listening < 0) {
    close(stop);
    return absl::UnavailableError(std::strerror(-listening));
  }
  auto listener = absl::WrapUnique(new TcpListener(listening, stop));
  listener->port_ = PortOf(listening);
  return listener;
}

TcpListener::~TcpListener() {
  Stop();
  close(stop_);
}

void TcpListener::Start(std::function<void(int connection)> take) {
  thread_ = std::thread([this, take = std::move(take)] { Accept(take); });
}

void TcpListener::Stop() {
  if (socket_ < 0) return;
  const uint64_t one = 1;
  (void)!write(stop_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  close(socket_);
  socket_ = -1;
}

void TcpListener::Accept(
    const std::function<void(int connection)>& take) const {
  pollfd waiting[] = {{stop_, POLLIN, 0}, {socket_, POLLIN, 0}};
  int pauses = 0;
  while (true) {
    poll(waiting, 2, -1);
    if (waiting[0].revents != 0) return;
    const int connection =
        accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      pauses = 0;
      take(connection);
      continue;
    }
    if (errno == EAGAIN || IsOfOneConnection(errno)) continue;
    if (pauses++ % kPausesBetweenLogLines == 0) {
      spdlog::warn(
          "gRPC cannot accept a connection and tries again grpc_port={} "
          "error=\"{}\" remedy=\"raise the limit of open files, or close "
          "connections\"",
          port_, std::strerror(errno));
    }
    poll(waiting, 1, kPauseMilliseconds);
  }
}

}  // namespace gpupool::server
