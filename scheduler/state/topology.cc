#include "scheduler/state/topology.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace gpupool::scheduler {
namespace {

constexpr std::array<absl::string_view, 7> kWords = {
    "", "SYS", "NODE", "PHB", "PXB", "PIX", "NVL"};

uint32_t LinkWeight(Link link) { return static_cast<uint32_t>(link); }

// Positions in the list of free devices, rising.
using Positions = absl::InlinedVector<size_t, 16>;

// The links between the free devices, in a matrix for fast look-up.
class Links {
 public:
  Links(const Topology& topology, absl::Span<const DeviceId> free)
      : size_(free.size()), links_(size_ * size_), sums_(size_) {
    for (size_t a = 0; a < size_; ++a) {
      for (size_t b = 0; b < size_; ++b) {
        if (a == b) continue;
        links_[a * size_ + b] = topology.Between(free[a], free[b]);
        sums_[a] += LinkWeight(links_[a * size_ + b]);
      }
    }
  }

  size_t size() const { return size_; }
  // Returns the connection of `chosen` with one more device.
  Connection With(Connection connection, const Positions& chosen,
                  size_t added) const {
    connection.cut += sums_[added];
    for (size_t at : chosen) {
      const Link link = links_[at * size_ + added];
      connection.slowest = std::min(connection.slowest, link);
      connection.inside += LinkWeight(link);
      // The link was cut for both of its devices; now it is inside.
      connection.cut -= 2 * LinkWeight(link);
    }
    return connection;
  }
  Connection Of(const Positions& choice) const {
    Connection connection;
    Positions chosen;
    for (size_t at : choice) {
      connection = With(connection, chosen, at);
      chosen.push_back(at);
    }
    return connection;
  }

 private:
  const size_t size_;
  std::vector<Link> links_;
  std::vector<uint32_t> sums_;
};

struct Found {
  Positions choice;
  Connection connection;
};

void KeepBetter(Found found, Found& best) {
  if (best.choice.empty() || IsBetter(found.connection, best.connection)) {
    best = std::move(found);
  }
}

// Returns n over k, or kMostChoices + 1 when there are more.
uint64_t CountChoices(uint64_t n, uint64_t k) {
  uint64_t count = 1;
  for (uint64_t i = 1; i <= std::min(k, n - k); ++i) {
    // Stays exact: the product of i consecutive numbers is divisible by i!. The
    // early return keeps it far from overflow.
    count = count * (n - i + 1) / i;
    if (count > kMostChoices) return kMostChoices + 1;
  }
  return count;
}

// Moves to the next choice in lexical order. Returns false after the last.
bool Advance(Positions& choice, size_t n) {
  const size_t k = choice.size();
  size_t at = k;
  while (at > 0 && choice[at - 1] == n - k + at - 1) --at;
  if (at == 0) return false;
  std::iota(choice.begin() + static_cast<ptrdiff_t>(at) - 1, choice.end(),
            choice[at - 1] + 1);
  return true;
}

// Returns the best of all choices; call only when CountChoices is small.
Found BestOfAll(const Links& links, size_t count) {
  Found best;
  Positions choice(count);
  std::iota(choice.begin(), choice.end(), size_t{0});
  do {
    KeepBetter({choice, links.Of(choice)}, best);
  } while (Advance(choice, links.size()));
  return best;
}

// Returns the choice that grows from `first` by the best connected device each
// time. Greedy, so not always the best.
Found GrowFrom(const Links& links, size_t first, size_t count) {
  Found grown = {{first}, links.Of({first})};
  while (grown.choice.size() < count) {
    Found next;
    for (size_t at = 0; at < links.size(); ++at) {
      const Positions& chosen = grown.choice;
      if (std::find(chosen.begin(), chosen.end(), at) != chosen.end()) continue;
      KeepBetter({{at}, links.With(grown.connection, chosen, at)}, next);
    }
    grown.choice.push_back(next.choice.front());
    grown.connection = next.connection;
  }
  return grown;
}

}  // namespace

absl::string_view ToString(Link link) { return kWords[LinkWeight(link)]; }

std::optional<Link> ParseLink(absl::string_view text) {
  const auto found = std::find(kWords.begin() + 1, kWords.end(), text);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<Link>(found - kWords.begin());
}

void Topology::Connect(DeviceId a, DeviceId b, Link link) {
  const size_t size = std::max(a.value(), b.value()) + 1;
  if (links_.size() < size) links_.resize(size);
  const auto set = [&](DeviceId from, DeviceId to) {
    std::vector<Link>& row = links_[from.value()];
    if (row.size() <= to.value()) row.resize(to.value() + 1, Link::kUnknown);
    row[to.value()] = link;
  };
  set(a, b);
  set(b, a);
}

Link Topology::Between(DeviceId a, DeviceId b) const {
  if (a.value() >= links_.size()) return Link::kUnknown;
  const std::vector<Link>& row = links_[a.value()];
  return b.value() < row.size() ? row[b.value()] : Link::kUnknown;
}

bool IsBetter(const Connection& a, const Connection& b) {
  if (a.slowest != b.slowest) return a.slowest > b.slowest;
  if (a.inside != b.inside) return a.inside > b.inside;
  return a.cut < b.cut;
}

ConnectedDevices BestConnected(const Topology& topology,
                               absl::Span<const DeviceId> free, size_t count) {
  const Links links(topology, free);
  Found best;
  if (CountChoices(free.size(), count) <= kMostChoices) {
    best = BestOfAll(links, count);
  } else {
    for (size_t first = 0; first < free.size(); ++first) {
      KeepBetter(GrowFrom(links, first, count), best);
    }
  }
  ConnectedDevices devices = {{}, best.connection};
  for (size_t at : best.choice) devices.ids.push_back(free[at]);
  std::sort(devices.ids.begin(), devices.ids.end());
  return devices;
}

}  // namespace gpupool::scheduler
