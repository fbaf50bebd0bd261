#include "server/http/port/connection_counts.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace gpupool::server {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address

ClientAddress OfIp4(const in_addr& ip) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &ip, text, sizeof(text));
  return {text, text, ntohl(ip.s_addr) >> 24 == 127};
}

// Returns how many connections of the total only this machine may have.
size_t KeptForLoopback(size_t total) { return std::min<size_t>(total / 4, 64); }

}  // namespace

ClientAddress ClientAddressOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return OfIp4(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.ss_family != AF_INET6) return {"unknown", "unknown", false};
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    in_addr ip4 = {};
    std::copy(ip.s6_addr + 12, ip.s6_addr + 16,
              reinterpret_cast<uint8_t*>(&ip4.s_addr));
    return OfIp4(ip4);
  }
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &ip, text, sizeof(text));
  return {text,
          std::string(reinterpret_cast<const char*>(ip.s6_addr), kNetworkBytes),
          IN6_IS_ADDR_LOOPBACK(&ip) != 0};
}

ConnectionCounts::ConnectionCounts(const ConnectionLimits& limits)
    : limits_(limits) {}

bool ConnectionCounts::Take(const ClientAddress& client) {
  if (client.loopback) {
    if (total_ >= limits_.total) return false;
    ++total_;
    return true;
  }
  if (total_ + KeptForLoopback(limits_.total) >= limits_.total) return false;
  size_t& count = by_client_[client.group];
  if (count >= limits_.by_client) return false;
  ++count;
  ++total_;
  return true;
}

void ConnectionCounts::GiveBack(const ClientAddress& client) {
  --total_;
  if (client.loopback) return;
  const auto count = by_client_.find(client.group);
  if (--count->second == 0) by_client_.erase(count);
}

}  // namespace gpupool::server
