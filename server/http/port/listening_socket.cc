#include "server/http/port/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

// Bytes of an answer that the system takes beyond those that are on their way.
// More would be taken and given in steps of a megabyte, so that a slow client
// would seem to take nothing for minutes.
constexpr int kUnsentBytes = 128 << 10;

// Connections that the system keeps until they are accepted; more are dropped,
// and their clients try again after a second.
constexpr int kMostUnaccepted = 512;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

void SetOptions(int socket, bool ip6) {
  // SO_REUSEPORT would share a taken port.
  const std::pair<std::pair<int, int>, int> settings[] = {
      {{SOL_SOCKET, SO_REUSEADDR}, 1},
      {{IPPROTO_TCP, TCP_NODELAY}, 1},
      {{SOL_SOCKET, SO_KEEPALIVE}, 1},
      {{IPPROTO_TCP, TCP_KEEPIDLE}, 30},
      {{IPPROTO_TCP, TCP_KEEPINTVL}, 10},
      {{IPPROTO_TCP, TCP_KEEPCNT}, 3},
      {{IPPROTO_TCP, TCP_NOTSENT_LOWAT}, kUnsentBytes}};
  for (const auto& [name, value] : settings) {
    setsockopt(socket, name.first, name.second, &value, sizeof(value));
  }
  // "::" takes IPv4 as well.
  const int no = 0;
  if (ip6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
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

// Returns the socket, or the system's error in the form -errno.
int ListenOn(const addrinfo& address) {
  const int listening =
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
             address.ai_protocol);
  if (listening < 0) return -errno;
  SetOptions(listening, address.ai_family == AF_INET6);
  if (bind(listening, address.ai_addr, address.ai_addrlen) == 0 &&
      listen(listening, kMostUnaccepted) == 0) {
    return listening;
  }
  const int error = errno;
  close(listening);
  return -error;
}

}  // namespace

absl::StatusOr<ListeningSocket> Listen(const std::string& address, int port) {
  const std::string where = absl::StrCat(address, ":", port);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.c_str(), std::to_string(port).c_str(),
                                 &hints, &found);
  if (failed != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot listen for HTTP on ", where, ": ", gai_strerror(failed),
        "; give an address of this machine"));
  }
  const Addresses addresses(found, &freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int listening = ListenOn(*one);
    if (listening >= 0) {
      return ListeningSocket{listening, PortOf(listening),
                             one->ai_family == AF_INET6};
    }
    error = -listening;
  }
  return absl::UnavailableError(absl::StrCat(
      "cannot listen for HTTP on ", where, ": ",
      std::generic_category().message(error),
      "; is the port taken? choose another, or 0 for any free one"));
}

}  // namespace gpupool::server
