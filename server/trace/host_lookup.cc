#include "server/trace/host_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {
namespace {

constexpr size_t kMostAddresses = 8;

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

std::vector<std::string> LookUpBySystem(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> addresses;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text;
    if (addresses.size() == kMostAddresses) break;
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(),
                    nullptr, 0, NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  freeaddrinfo(found);
  return addresses;
}

// The state that the object and its lookup share.
struct HostLookup::Shared {
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return stopped || !running;
  }

  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  bool running ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::string> found ABSL_GUARDED_BY(mutex);
};

HostLookup::HostLookup(std::string host, LookUpHost look_up)
    : host_(std::move(host)),
      look_up_(std::move(look_up)),
      shared_(std::make_shared<Shared>()) {}

HostLookup::~HostLookup() = default;

std::vector<std::string> HostLookup::Find(absl::Time until) {
  if (IsAddress(host_)) return {host_};
  absl::MutexLock lock(&shared_->mutex);
  if (shared_->stopped) return {};
  if (!shared_->running) {
    shared_->running = true;
    std::thread([shared = shared_, look_up = look_up_, host = host_] {
      std::vector<std::string> found = look_up(host);
      absl::MutexLock lock(&shared->mutex);
      shared->found = std::move(found);
      shared->running = false;
    }).detach();
  }
  shared_->mutex.AwaitWithDeadline(
      absl::Condition(shared_.get(), &Shared::HasNews), until);
  if (shared_->stopped || shared_->running) return {};
  return shared_->found;
}

void HostLookup::Stop() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->stopped = true;
}

}  // namespace gpupool::server
