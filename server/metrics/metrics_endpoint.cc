#include "server/metrics/metrics_endpoint.h"

#include <netdb.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gpupool::server {
namespace {

constexpr size_t kThreads = 2;

// Opens a connection and closes it.
void Knock(const std::string& listen, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = absl::StrCat(port);
  if (getaddrinfo(listen.c_str(), service.c_str(), &hints, &found) != 0) {
    return;
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    // Only the attempt matters.
    static_cast<void>(connect(fd, found->ai_addr, found->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(std::string listen,
                                 std::unique_ptr<prometheus::Exposer> exposer)
    : listen_(std::move(listen)), exposer_(std::move(exposer)) {}

// Knocks to end the library's acceptor at once: it checks for its end every two
// seconds, or when a connection comes.
MetricsEndpoint::~MetricsEndpoint() {
  const uint16_t old_port = port();
  std::atomic<bool> ended = false;
  std::thread ending([&] {
    exposer_.reset();
    ended = true;
  });
  while (!ended) {
    Knock(listen_, old_port);
    absl::SleepFor(absl::Milliseconds(5));
  }
  ending.join();
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& listen, uint16_t port, const Metrics& metrics) {
  const bool ip6 = absl::StrContains(listen, ':');
  const std::string address =
      absl::StrCat(ip6 ? "[" : "", listen, ip6 ? "]" : "", ":", port);
  // The library reports a taken port by an exception.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, kThreads);
    exposer->RegisterCollectable(metrics.collectable());
    return absl::WrapUnique(new MetricsEndpoint(listen, std::move(exposer)));
  } catch (const std::exception&) {
    return absl::UnavailableError(absl::StrCat(
        "cannot serve metrics on ", address,
        ": the address is taken or not ours; choose another --metrics-port"));
  }
}

uint16_t MetricsEndpoint::port() const {
  return static_cast<uint16_t>(exposer_->GetListeningPorts().front());
}

}  // namespace gpupool::server
