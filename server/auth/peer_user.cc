#include "server/auth/peer_user.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>

#include "absl/cleanup/cleanup.h"

namespace gpupool::server {
namespace {

// One end of a connection. IPv4 in the form of IPv6 is IPv4.
struct End {
  int family = AF_UNSPEC;
  uint8_t address[16] = {};  // IPv4: the first four bytes
  uint16_t port = 0;         // in the order of networks
};

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 question;
};

End EndOf(const sockaddr_storage& address) {
  End end;
  if (address.ss_family == AF_INET) {
    const auto& ip4 = reinterpret_cast<const sockaddr_in&>(address);
    end.family = AF_INET;
    end.port = ip4.sin_port;
    std::memcpy(end.address, &ip4.sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    const auto& ip6 = reinterpret_cast<const sockaddr_in6&>(address);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&ip6.sin6_addr);
    end.family = mapped ? AF_INET : AF_INET6;
    end.port = ip6.sin6_port;
    std::memcpy(end.address, ip6.sin6_addr.s6_addr + (mapped ? 12 : 0),
                mapped ? 4 : 16);
  }
  return end;
}

bool IsOnThisMachine(const End& peer, const End& own) {
  if (peer.family != own.family || peer.family == AF_UNSPEC) return false;
  if (std::memcmp(peer.address, own.address, 16) == 0) return true;
  if (peer.family == AF_INET) return peer.address[0] == 127;
  in6_addr ip6 = {};
  std::memcpy(&ip6, peer.address, 16);
  return IN6_IS_ADDR_LOOPBACK(&ip6);
}

Request QuestionFor(const End& peer, const End& own) {
  Request request = {};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& question = request.question;
  question.sdiag_family = static_cast<uint8_t>(peer.family);
  question.sdiag_protocol = IPPROTO_TCP;
  question.idiag_states = ~0U;
  question.id.idiag_sport = peer.port;
  question.id.idiag_dport = own.port;
  std::memcpy(question.id.idiag_src, peer.address, 16);
  std::memcpy(question.id.idiag_dst, own.address, 16);
  question.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  question.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

// Returns whether a socket in this state is the peer of a connection. A socket
// that listens, or has only begun to connect, may have the peer's port when the
// peer is gone.
bool IsConnected(int state) {
  return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 ||
         state == TCP_FIN_WAIT2;
}

// Returns the user of the socket that has the peer's end open.
std::optional<uid_t> UserOf(const End& peer, const End& own) {
  const int netlink =
      socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (netlink < 0) return std::nullopt;
  const absl::Cleanup close_netlink = [netlink] { close(netlink); };
  const Request request = QuestionFor(peer, own);
  if (send(netlink, &request, sizeof(request), 0) != sizeof(request)) {
    return std::nullopt;
  }
  alignas(nlmsghdr) char answer[4096];
  // The kernel answers before send returns.
  const ssize_t size = recv(netlink, answer, sizeof(answer), MSG_DONTWAIT);
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) {
    return std::nullopt;
  }
  nlmsghdr header;
  std::memcpy(&header, answer, sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg found;
  std::memcpy(&found, answer + NLMSG_HDRLEN, sizeof(found));
  // Without an inode the socket is no longer open, and its uid is 0 for want of
  // another one.
  if (found.idiag_inode == 0 || !IsConnected(found.idiag_state) ||
      found.id.idiag_sport != peer.port || found.id.idiag_dport != own.port) {
    return std::nullopt;
  }
  return found.idiag_uid;
}

// Returns whether the connection still has its two ends.
bool IsOpen(int connection) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  return getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         (info.tcpi_state == TCP_ESTABLISHED ||
          info.tcpi_state == TCP_CLOSE_WAIT);
}

// Returns the uid that stands for all users whom this user namespace does not
// know; nothing if it knows every user.
std::optional<uid_t> UnknownUsers() {
  uint64_t first = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  std::ifstream map("/proc/self/uid_map");
  if (map >> first >> outside >> count && first == 0 && count == UINT32_MAX) {
    return std::nullopt;
  }
  uid_t unknown = 0;
  std::ifstream file("/proc/sys/kernel/overflowuid");
  return file >> unknown ? unknown : 65534;
}

}  // namespace

PeerUser PeerUserOf(int connection) {
  sockaddr_storage peer_address = {};
  sockaddr_storage own_address = {};
  socklen_t peer_size = sizeof(peer_address);
  socklen_t own_size = sizeof(own_address);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer_address),
                  &peer_size) != 0 ||
      getsockname(connection, reinterpret_cast<sockaddr*>(&own_address),
                  &own_size) != 0) {
    return {};
  }
  const End peer = EndOf(peer_address);
  const End own = EndOf(own_address);
  if (!IsOnThisMachine(peer, own)) return {.other_machine = true};
  std::optional<uid_t> uid = UserOf(peer, own);
  // Asks again, since the peer may have closed its socket while the kernel
  // wrote the first answer.
  if (!uid.has_value() || UserOf(peer, own) != uid) return {};
  // While the connection is open no other socket can be its other end.
  if (!IsOpen(connection)) return {};
  static const std::optional<uid_t> unknown = UnknownUsers();
  if (uid == unknown) return {};
  return {.uid = uid};
}

absl::Status CheckPeerUsers() {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int accepted = -1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (bind(listening, any, size) == 0 && listen(listening, 1) == 0 &&
      getsockname(listening, any, &size) == 0 &&
      connect(client, any, size) == 0) {
    accepted = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  }
  // A stranger may have been faster than this process.
  const std::optional<uid_t> uid =
      accepted < 0 ? std::nullopt : PeerUserOf(accepted).uid;
  for (const int socket : {listening, client, accepted}) {
    if (socket >= 0) close(socket);
  }
  if (uid.has_value()) return absl::OkStatus();
  return absl::UnavailableError(
      "the system does not tell which user calls over TCP, so each such call "
      "needs a token; use the socket, or a kernel with NETLINK_SOCK_DIAG and "
      "TCP (CONFIG_INET_DIAG)");
}

}  // namespace gpupool::server
